//! What processes of memory tell each other of how far sessions have come (see the witness's news).

use super::{Hints, SHOWING};
use crate::redis::layout::Layout;
use crate::redis::witness::Told;
use futures::future::join_all;
use redis::Cmd;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// So long what other processes are told is gathered, after it was answered.
const GATHERING: Duration = Duration::from_millis(5);

/// Before what could not be told is told again.
const TELL_AGAIN: Duration = Duration::from_millis(250);

/// What is said by whoever begins to listen.
const HELLO: &[u8] = b"hello";

impl Hints {
    /// Tells other processes of memory what this one was answered, for as long as it is not aborted.
    pub(super) async fn tell_marks(self: Arc<Self>) {
        let witness = &self.servers.witness;
        // A server that is slow keeps nobody waiting who listens to another.
        let (mut telling, mut busy) = (JoinSet::new(), HashSet::new());
        loop {
            tokio::select! {
                () = witness.has_news() => tokio::time::sleep(GATHERING).await,
                Some(done) = telling.join_next() => {
                    if let Ok(place) = done {
                        busy.remove(&place);
                    }
                }
            }
            let layout = self.servers.known();
            let news = witness.news(|it| layout.place(it), |place| !busy.contains(&place));
            for (place, told) in news {
                busy.insert(place);
                let hints = self.clone();
                telling.spawn(async move {
                    if !hints.tell(told).await {
                        tokio::time::sleep(TELL_AGAIN).await;
                    }
                    place
                });
            }
        }
    }

    /// Tells what is left to be told, and hears nothing more.
    pub(in crate::redis) async fn end(&self) {
        let layout = self.servers.known();
        let news = self.servers.witness.news(|it| layout.place(it), |_| true);
        join_all(news.into_values().map(|told| self.tell(told))).await;
        self.close();
    }

    /// Whether all could be told.
    async fn tell(&self, told: Vec<Told>) -> bool {
        let mut is_all = true;
        for it in told {
            let is_told = is_all && self.say(it.partition(), it.text().as_bytes()).await;
            if !is_told {
                is_all = false;
                self.servers.witness.not_told(it);
            }
        }
        is_all
    }

    /// Asks those who listen already for all that they know, at the servers of these partitions.
    pub(super) fn greet(self: &Arc<Self>, layout: &Layout, partitions: &[u16]) {
        let places = partitions.iter().map(|it| (layout.place(*it), *it));
        let places: BTreeMap<_, _> = places.collect();
        for partition in places.into_values() {
            let hints = self.clone();
            // In vain if there is nobody, or the server is gone: then it is done anew.
            tokio::spawn(async move { hints.say(partition, HELLO).await });
        }
    }

    async fn say(&self, partition: u16, words: &[u8]) -> bool {
        let cmd = self.message(partition, words);
        let said = self.servers.ask_all([(partition, cmd)]);
        let said = tokio::time::timeout(SHOWING, said).await;
        let is_said = matches!(said, Ok(Ok(_)));
        if !is_said {
            tracing::debug!("other processes do not hear how far sessions have come, for now");
        }
        is_said
    }

    fn message(&self, partition: u16, words: &[u8]) -> Cmd {
        let channel = self.names.partition(partition).marks();
        let mut cmd = redis::cmd("SPUBLISH");
        cmd.arg(channel);
        cmd.arg([self.process.as_bytes(), b" ", words].concat());
        cmd
    }

    /// Takes in what another process said about sessions of the server that has this partition.
    pub(super) fn heard_marks(&self, partition: u16, words: &[u8]) {
        let witness = &self.servers.witness;
        if words == HELLO {
            let layout = self.servers.known();
            witness.tell_all(|it| layout.place(it) == layout.place(partition));
        } else if let Ok(marks) = std::str::from_utf8(words) {
            witness.heard(marks);
        }
    }
}
