//! Hints between processes: what was appended, what can be claimed, what is shown.
//!
//! Scripts publish them. They may be lost: claimers look again each second, and so does this for
//! all sessions that are followed here. Subscriptions have connections of their own, and follow from
//! what is wanted. What this process published itself comes back, too, and is known by its name.

mod subscriber;

use super::keys::{Names, PARTITIONS};
use super::queue::Queue;
use super::servers::Servers;
use crate::hub::Hub;
use crate::port::{Collection, SessionKey};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How long an owner that has not asked for work is told of commands.
const OWNER_MEMORY: Duration = Duration::from_secs(60);

/// Owners beyond which those that have not asked lately are forgotten.
const MANY_OWNERS: usize = 64;

/// The longest that somebody waits for what is shown and not stored.
const SHOWING: Duration = Duration::from_secs(1);

/// What a channel tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Topic {
    /// Work in a partition, and commands for owners there.
    Work,
    /// New events of a session, and its end.
    Events(SessionKey),
    /// What is shown of a session.
    Deltas(SessionKey),
    /// Changes of documents.
    Documents(Collection),
}

/// A channel that somebody in this process wants to hear.
#[derive(Debug, Clone)]
struct Wanted {
    partition: u16,
    topic: Topic,
    /// How many want to.
    count: usize,
    /// The server sends what is published.
    is_subscribed: bool,
}

/// The hints of one store.
pub(super) struct Hints {
    servers: Arc<Servers>,
    hub: Arc<Hub>,
    queue: Arc<Queue>,
    names: Names,
    process: String,
    wanted: Mutex<HashMap<String, Wanted>>,
    /// Counts the changes of what is wanted.
    changes: watch::Sender<u64>,
    /// Counts how often channels were subscribed.
    subscribed: watch::Sender<u64>,
    /// A server is subscribed to anew: hints were missed.
    reconnected: Notify,
    owners: Mutex<HashMap<String, Instant>>,
    /// Those of who asks for work; taken once, and given up at the end.
    work: Mutex<Vec<Interest>>,
    task: Mutex<State>,
}

/// The task that listens begins when something is wanted.
enum State {
    Idle,
    Listening(AbortHandle),
    Closed,
}

impl Hints {
    pub(super) fn new(
        servers: Arc<Servers>,
        hub: Arc<Hub>,
        queue: Arc<Queue>,
        names: Names,
        process: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            servers,
            hub,
            queue,
            names,
            process,
            wanted: Mutex::default(),
            changes: watch::Sender::default(),
            subscribed: watch::Sender::default(),
            reconnected: Notify::new(),
            owners: Mutex::default(),
            work: Mutex::default(),
            task: Mutex::new(State::Idle),
        })
    }

    /// An owner asks for work here: from now on it is told of what happens elsewhere.
    pub(super) fn serves(self: &Arc<Self>, owner: &str) {
        {
            let mut owners = locked(&self.owners);
            if owners.len() >= MANY_OWNERS {
                owners.retain(|_, asked| asked.elapsed() < OWNER_MEMORY);
            }
            owners.insert(owner.to_owned(), Instant::now());
        }
        let mut work = locked(&self.work);
        let is_closed = matches!(*locked(&self.task), State::Closed);
        if work.is_empty() && !is_closed {
            for number in 0..PARTITIONS {
                let names = self.names.partition(number);
                work.push(self.want(names.work(), number, Topic::Work));
            }
        }
    }

    /// Hears of a session's events as long as the value lives.
    pub(super) fn events(self: &Arc<Self>, key: &SessionKey) -> Interest {
        let names = self.names.session(key);
        let topic = Topic::Events(key.clone());
        self.want(names.followers(), names.partition.number, topic)
    }

    /// Hears what is shown of a session as long as the value lives. Returns once its channel is
    /// subscribed, or if that takes too long.
    pub(super) async fn deltas(self: &Arc<Self>, key: &SessionKey) -> Interest {
        let names = self.names.session(key);
        let topic = Topic::Deltas(key.clone());
        let channel = names.deltas();
        let interest = self.want(channel.clone(), names.partition.number, topic);
        let mut subscribed = self.subscribed.subscribe();
        let is_subscribed = |_: &u64| {
            let wanted = locked(&self.wanted);
            wanted.get(&channel).is_some_and(|it| it.is_subscribed)
        };
        let waiting = subscribed.wait_for(is_subscribed);
        // Without it the first are missed, as they may be.
        let _ = tokio::time::timeout(SHOWING, waiting).await;
        interest
    }

    /// Receives hints of changes of documents as long as the value lives.
    pub(super) fn documents(self: &Arc<Self>, collection: &Collection) -> Interest {
        let names = self.names.collection(collection);
        let topic = Topic::Documents(collection.clone());
        self.want(names.watchers(), names.partition.number, topic)
    }

    /// Shows something to those who listen in other processes.
    pub(super) async fn publish(&self, key: &SessionKey, delta: &Bytes) {
        let names = self.names.session(key);
        let mut message = Vec::with_capacity(self.process.len() + 1 + delta.len());
        message.extend_from_slice(self.process.as_bytes());
        message.push(b' ');
        message.extend_from_slice(delta);
        let mut cmd = redis::cmd("SPUBLISH");
        cmd.arg(names.deltas()).arg(message);
        let told = self.servers.ask_all([(names.partition.number, cmd)]);
        let told = tokio::time::timeout(SHOWING, told).await;
        if !matches!(told, Ok(Ok(_))) {
            tracing::debug!("something shown does not reach other processes");
        }
    }

    /// Hears nothing more.
    pub(super) fn close(&self) {
        let state = std::mem::replace(&mut *locked(&self.task), State::Closed);
        if let State::Listening(task) = state {
            task.abort();
        }
        let work = std::mem::take(&mut *locked(&self.work));
        drop(work);
    }

    fn want(self: &Arc<Self>, channel: String, partition: u16, topic: Topic) -> Interest {
        let is_new = {
            let mut wanted = locked(&self.wanted);
            let entry = wanted.entry(channel.clone()).or_insert(Wanted {
                partition,
                topic,
                count: 0,
                is_subscribed: false,
            });
            entry.count += 1;
            entry.count == 1
        };
        if is_new {
            self.changed();
        }
        self.start();
        Interest {
            hints: self.clone(),
            channel,
        }
    }

    /// What is wanted has changed.
    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn start(self: &Arc<Self>) {
        let mut state = locked(&self.task);
        if matches!(*state, State::Idle) {
            let task = tokio::spawn(subscriber::listen(self.clone()));
            *state = State::Listening(task.abort_handle());
        }
    }

    /// Takes in a message of a channel.
    fn received(&self, channel: &str, message: &[u8]) {
        let Some(Wanted {
            topic, partition, ..
        }) = locked(&self.wanted).get(channel).cloned()
        else {
            return;
        };
        let mut parts = message.splitn(2, |&byte| byte == b' ');
        if parts.next() == Some(self.process.as_bytes()) {
            return;
        }
        let rest = parts.next();
        match topic {
            Topic::Work => match rest.and_then(|rest| std::str::from_utf8(rest).ok()) {
                Some(rest) => self.received_command(rest),
                None => self.queue.mark(&self.hub, partition),
            },
            Topic::Events(key) => match rest {
                Some(b"end") => self.hub.deleted(&key),
                Some(rest) => {
                    let seq = std::str::from_utf8(rest).ok();
                    if let Some(seq) = seq.and_then(|seq| seq.parse().ok()) {
                        self.hub.grown(&key, seq);
                    }
                }
                None => {}
            },
            Topic::Deltas(key) => {
                let delta = rest.unwrap_or_default();
                self.hub.publish(&key, Bytes::copy_from_slice(delta));
            }
            Topic::Documents(collection) => self.hub.documents_changed(&collection),
        }
    }

    /// A session of an owner got a command: `namespace/session owner`.
    fn received_command(&self, text: &str) {
        let Some((member, owner)) = text.split_once(' ') else {
            return;
        };
        let is_here = locked(&self.owners).contains_key(owner);
        if let Some(key) = super::keys::session_of(member).filter(|_| is_here) {
            self.hub.wake(owner, &key);
        }
    }

    /// The sessions that are followed here.
    fn followed(&self) -> Vec<SessionKey> {
        let wanted = locked(&self.wanted);
        let followed = wanted.values().filter_map(|wanted| match &wanted.topic {
            Topic::Events(key) => Some(key.clone()),
            Topic::Work | Topic::Deltas(_) | Topic::Documents(_) => None,
        });
        followed.collect()
    }

    /// The collections that are watched here.
    fn watched(&self) -> Vec<Collection> {
        let wanted = locked(&self.wanted);
        let watched = wanted.values().filter_map(|wanted| match &wanted.topic {
            Topic::Documents(collection) => Some(collection.clone()),
            Topic::Work | Topic::Events(_) | Topic::Deltas(_) => None,
        });
        watched.collect()
    }
}

/// Somebody wants to hear a channel, as long as this lives.
pub(super) struct Interest {
    hints: Arc<Hints>,
    channel: String,
}

impl Interest {
    /// The stream, which keeps the subscription as long as it lives.
    pub(super) fn kept_by<T: Send + 'static>(
        self,
        stream: BoxStream<'static, T>,
    ) -> BoxStream<'static, T> {
        let kept = move |item| {
            let _ = &self;
            item
        };
        stream.map(kept).boxed()
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut wanted = locked(&self.hints.wanted);
        let Some(entry) = wanted.get_mut(&self.channel) else {
            return;
        };
        entry.count -= 1;
        if entry.count == 0 {
            wanted.remove(&self.channel);
            drop(wanted);
            self.hints.changed();
        }
    }
}

/// A poisoned lock is taken over: every critical section here leaves its data whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hints")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}
