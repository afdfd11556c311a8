//! The tasks that are subscribed to channels: one for each server, so that a server that is away keeps
//! none of the others waiting.

use super::{Hints, Wanted, locked};
use crate::port::{StoreError, StoreResult};
use crate::redis::ask::VERY_LATE;
use crate::redis::keys::PARTITIONS;
use crate::redis::layout::Layout;
use crate::redis::node::Node;
use crate::redis::script::{Reply, int};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, PushInfo, PushKind, RedisError, Value};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// How often followed sessions and watched documents are looked at, whatever was received.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// After a connection was lost the next is tried after a pause that doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = LOOK_AGAIN;

/// Channels that are subscribed or unsubscribed at once.
const AT_ONCE: usize = 512;

/// Keeps a subscriber at each server, and looks at followed sessions and watched documents.
pub(super) async fn listen(hints: Arc<Hints>) {
    let mut ticks = tokio::time::interval(LOOK_AGAIN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut subscribers = JoinSet::new();
    let mut subscribed: Option<Arc<Layout>> = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = hints.reconnected.notified() => {}
        }
        let layout = match hints.servers.layout().await {
            Ok(layout) => layout,
            Err(error) if error.is_closed() => return,
            Err(error) => {
                tracing::debug!(%error, "no hints of other processes for now");
                continue;
            }
        };
        if subscribed.is_none_or(|it| !Arc::ptr_eq(&it, &layout)) {
            let nodes = layout.nodes().iter();
            let all = nodes.map(|node| Subscriber::new(&hints, &layout, node).run());
            subscribers = all.collect();
        }
        subscribed = Some(layout);
        // A subscriber ends only if it panics.
        while subscribers.try_join_next().is_some() {
            subscribed = None;
        }
        let (sessions, documents) = tokio::join!(look_again(&hints), look_at_documents(&hints));
        match sessions.and(documents) {
            Err(error) if error.is_closed() => return,
            Err(error) => tracing::debug!(%error, "followed sessions cannot be looked at for now"),
            Ok(()) => {}
        }
    }
}

/// Looks whether followed sessions have grown or ended without a hint.
async fn look_again(hints: &Hints) -> StoreResult<()> {
    let followed = hints.followed();
    if followed.is_empty() {
        return Ok(());
    }
    let questions = followed.iter().map(|key| {
        let names = hints.names.session(key);
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(names.hash()).arg(&["seq", "del"]);
        (names.partition.number, cmd)
    });
    let answers = hints.servers.ask_some(VERY_LATE, questions).await?;
    for (key, answer) in followed.iter().zip(answers) {
        let Some(Ok(mut fields)) = answer.map(Reply::new) else {
            continue;
        };
        match (fields.number(), fields.optional()) {
            (Ok(seq), _) => hints.hub.looked(key, seq),
            (Err(_), Ok(None)) => hints.hub.looked(key, 0),
            (Err(_), _) => hints.hub.deleted(key),
        }
    }
    Ok(())
}

/// Looks whether watched documents have changed without a hint, or a server may lack some.
async fn look_at_documents(hints: &Hints) -> StoreResult<()> {
    let watched = hints.watched();
    if watched.is_empty() {
        return Ok(());
    }
    let questions = watched.iter().map(|collection| {
        let names = hints.names.collection(collection);
        let mut cmd = redis::cmd("HGET");
        cmd.arg(names.hash()).arg("ct");
        (names.partition.number, cmd)
    });
    // A server that is checked meanwhile makes the next look differ from this one.
    let vouched = hints.servers.vouched_times();
    let answers = hints.servers.ask_some(VERY_LATE, questions).await?;
    for (collection, answer) in watched.iter().zip(answers) {
        let counter = match answer {
            None => continue,
            Some(answer) => int(&answer).and_then(|counter| u64::try_from(counter).ok()),
        };
        let counter = counter.unwrap_or(0);
        hints.hub.documents_looked(collection, vouched, counter);
    }
    Ok(())
}

/// Is subscribed at one server to what is wanted of its partitions.
struct Subscriber {
    hints: Arc<Hints>,
    layout: Arc<Layout>,
    node: Arc<Node>,
    /// The channels that the connection is subscribed to.
    channels: HashSet<String>,
    /// How many answers to unsubscriptions of each channel are still to come.
    leaving: HashMap<String, usize>,
    is_refusal_reported: bool,
}

/// A connection to the server.
struct Line {
    connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    /// What is wanted has changed.
    changes: watch::Receiver<u64>,
}

impl Subscriber {
    fn new(hints: &Arc<Hints>, layout: &Arc<Layout>, node: &Arc<Node>) -> Self {
        Self {
            hints: hints.clone(),
            layout: layout.clone(),
            node: node.clone(),
            channels: HashSet::new(),
            leaving: HashMap::new(),
            is_refusal_reported: false,
        }
    }

    /// Subscribes, and again when the connection was lost.
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let lost = match self.connect().await {
                Ok(line) => {
                    pause = FIRST_PAUSE;
                    self.serve(line).await
                }
                Err(error) => error,
            };
            tracing::debug!(reason = %lost, "hints of other processes are lost for now");
            // Another server may have its part.
            self.hints.servers.stale();
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn connect(&mut self) -> StoreResult<Line> {
        self.channels.clear();
        self.leaving.clear();
        for wanted in locked(&self.hints.wanted).values_mut() {
            if self.has(wanted.partition) {
                wanted.is_subscribed = false;
            }
        }
        let (sender, pushes) = mpsc::unbounded_channel();
        let mut line = Line {
            connection: self.node.listen(sender).await?,
            pushes,
            changes: self.hints.changes.subscribe(),
        };
        self.align(&mut line).await?;
        // What happened before is found by looking.
        let partitions = (0..PARTITIONS).filter(|it| self.has(*it));
        self.hints.queue.mark_those(&self.hints.hub, partitions);
        self.hints.reconnected.notify_one();
        Ok(line)
    }

    /// Receives until the connection is lost, and says why.
    async fn serve(&mut self, mut line: Line) -> StoreError {
        loop {
            let done = tokio::select! {
                push = line.pushes.recv() => self.take_in(push),
                _ = line.changes.changed() => self.align(&mut line).await,
            };
            if let Err(error) = done {
                return error;
            }
        }
    }

    fn has(&self, partition: u16) -> bool {
        Arc::ptr_eq(self.layout.node(partition), &self.node)
    }

    fn take_in(&mut self, push: Option<PushInfo>) -> StoreResult<()> {
        let lost = || StoreError::unavailable("a connection was lost");
        let push = push.ok_or_else(lost)?;
        let mut data = push.data.into_iter();
        match (push.kind, data.next(), data.next()) {
            (PushKind::Disconnection, ..) => Err(lost()),
            (
                PushKind::SMessage,
                Some(Value::BulkString(channel)),
                Some(Value::BulkString(message)),
            ) => {
                if let Ok(channel) = std::str::from_utf8(&channel) {
                    self.hints.received(channel, &message);
                }
                Ok(())
            }
            // A slot that moves to another server takes its channels along.
            (PushKind::SUnsubscribe, Some(Value::BulkString(channel)), _) => {
                let channel = String::from_utf8_lossy(&channel).into_owned();
                // It was asked for here, and may be subscribed again since.
                if let Entry::Occupied(mut leaving) = self.leaving.entry(channel.clone()) {
                    *leaving.get_mut() -= 1;
                    if *leaving.get() == 0 {
                        leaving.remove();
                    }
                    return Ok(());
                }
                if self.channels.contains(&channel) {
                    self.hints.servers.stale();
                    return Err(StoreError::unavailable("a channel has moved"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Subscribes to what is wanted, and to nothing else.
    async fn align(&mut self, line: &mut Line) -> StoreResult<()> {
        loop {
            let (added, removed) = self.difference();
            if added.is_empty() && removed.is_empty() {
                self.report_subscribed();
                return Ok(());
            }
            let mut commands = Pipeline::new();
            for channel in &added {
                commands.cmd("SSUBSCRIBE").arg(channel);
            }
            for channel in removed {
                commands.cmd("SUNSUBSCRIBE").arg(&channel);
                self.channels.remove(&channel);
                *self.leaving.entry(channel).or_default() += 1;
            }
            let done: Result<Vec<Value>, _> = commands.query_async(&mut line.connection).await;
            done.map_err(|error| {
                self.hints.servers.stale();
                self.report_refusal(&error);
                StoreError::unavailable(error)
            })?;
            self.channels.extend(added);
        }
    }

    /// Some channels that are wanted and not subscribed, and some that are not wanted any more.
    fn difference(&self) -> (Vec<String>, Vec<String>) {
        let wanted = locked(&self.hints.wanted);
        let is_added = |channel: &String, it: &Wanted| {
            self.has(it.partition) && !self.channels.contains(channel)
        };
        let added = wanted.iter().filter(|(channel, it)| is_added(channel, it));
        let added = added.map(|(channel, _)| channel.clone()).take(AT_ONCE);
        let removed = self.channels.iter();
        let removed = removed.filter(|channel| !wanted.contains_key(*channel));
        let removed = removed.take(AT_ONCE).cloned();
        (added.collect(), removed.collect())
    }

    /// Lets callers go on that wait until a channel is subscribed.
    fn report_subscribed(&self) {
        let mut is_new = false;
        for (channel, wanted) in locked(&self.hints.wanted).iter_mut() {
            if !wanted.is_subscribed && self.channels.contains(channel) {
                wanted.is_subscribed = true;
                is_new = true;
            }
        }
        if is_new {
            self.hints.subscribed.send_modify(|count| *count += 1);
        }
    }

    /// All else continues without hints, only later, so that nobody would notice.
    fn report_refusal(&mut self, error: &RedisError) {
        let is_refusal = error.code() == Some("NOPERM");
        if is_refusal && !std::mem::replace(&mut self.is_refusal_reported, true) {
            tracing::warn!(
                %error,
                "this user of Redis may not listen to the store's channels: work is found later than \
                 it could be"
            );
        }
    }
}
