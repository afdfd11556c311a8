//! The task that is subscribed to channels.

use super::{Hints, Order, Topic, Wanted, locked};
use crate::port::{StoreError, StoreResult};
use crate::redis::ask::VERY_LATE;
use crate::redis::layout::Layout;
use crate::redis::script::Reply;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, PushInfo, PushKind, RedisError, Value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// How often followed sessions are looked at, whatever was heard.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// After a connection was lost the next is tried after a pause that doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = LOOK_AGAIN;

/// The longest that what was said before a connection was lost is waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Orders that are carried out at once.
const ORDERS: usize = 512;

pub(super) struct Ear {
    hints: Arc<Hints>,
    orders: mpsc::UnboundedReceiver<Order>,
    /// How many answers to unsubscriptions of each channel are still to come.
    leaving: HashMap<String, usize>,
    is_refusal_told: bool,
}

/// Connections to all servers, as they were found; `None` to those that were not there.
struct Line {
    layout: Arc<Layout>,
    connections: Vec<Option<MultiplexedConnection>>,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
}

impl Ear {
    pub(super) fn new(hints: Arc<Hints>, orders: mpsc::UnboundedReceiver<Order>) -> Self {
        Self {
            hints,
            orders,
            leaving: HashMap::new(),
            is_refusal_told: false,
        }
    }

    /// Listens, and begins anew when a connection was lost.
    pub(super) async fn listen(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect().await {
                Ok(line) => {
                    pause = FIRST_PAUSE;
                    let lost = self.serve(line).await;
                    tracing::debug!(reason = %lost, "hints of other processes are lost for now");
                }
                Err(error) if error.is_closed() => return,
                Err(error) => tracing::debug!(%error, "no hints of other processes for now"),
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
            // Followers need no connection of this kind to go on.
            if let Err(error) = self.look_again().await {
                tracing::debug!(%error, "followed sessions cannot be looked at for now");
            }
        }
    }

    async fn connect(&mut self) -> StoreResult<Line> {
        let layout = self.hints.servers.layout().await?;
        let (sender, pushes) = mpsc::unbounded_channel();
        self.leaving.clear();
        let mut connections = Vec::new();
        let mut lost = None;
        for node in layout.nodes() {
            let connection = node.listen(sender.clone()).await;
            connections.push(connection.map_err(|error| lost = Some(error)).ok());
        }
        match lost {
            Some(error) if connections.iter().all(Option::is_none) => return Err(error),
            _ => {}
        }
        let mut line = Line {
            layout,
            connections,
            pushes,
        };
        let wanted: Vec<_> = locked(&self.hints.wanted).keys().cloned().collect();
        let orders = wanted
            .into_iter()
            .map(|channel| Order::Subscribe(channel, None));
        self.carry_out(&mut line, orders.collect()).await?;
        // What happened before is found out by looking.
        self.look_again().await?;
        self.hints.queue.mark_all(&self.hints.hub);
        Ok(line)
    }

    /// Hears until a connection is lost, and says why.
    async fn serve(&mut self, mut line: Line) -> StoreError {
        let mut ticks = tokio::time::interval(LOOK_AGAIN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        let mut orders = Vec::new();
        loop {
            let done = tokio::select! {
                push = line.pushes.recv() => self.take_in(push),
                _ = self.orders.recv_many(&mut orders, ORDERS) => {
                    self.carry_out(&mut line, std::mem::take(&mut orders)).await
                }
                _ = ticks.tick() => self.look_again().await.and_then(|()| self.check(&line)),
            };
            if let Err(error) = done {
                self.hear_out(&mut line).await;
                return error;
            }
        }
    }

    /// What was said before a connection was lost is heard, and counts for who asks from now on: a
    /// process may have ended right after it told what its server has to have.
    async fn hear_out(&mut self, line: &mut Line) {
        let until = Instant::now() + LAST_WORDS;
        while let Ok(Some(push)) = tokio::time::timeout_at(until, line.pushes.recv()).await {
            let is_lost = push.kind == PushKind::Disconnection;
            // That it is lost is known.
            let _ = self.take_in(Some(push));
            if is_lost && line.pushes.is_empty() {
                break;
            }
        }
        line.layout.nodes().iter().for_each(|node| node.doubt());
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
                    self.hints.heard(channel, &message);
                }
                Ok(())
            }
            // A slot that moves to another server takes its channels along.
            (PushKind::SUnsubscribe, Some(Value::BulkString(channel)), _) => {
                let channel = String::from_utf8_lossy(&channel).into_owned();
                // It was asked for here, and may be wanted again since.
                if let Entry::Occupied(mut leaving) = self.leaving.entry(channel.clone()) {
                    *leaving.get_mut() -= 1;
                    if *leaving.get() == 0 {
                        leaving.remove();
                    }
                    return Ok(());
                }
                if locked(&self.hints.wanted).contains_key(&channel) {
                    self.hints.servers.stale();
                    return Err(StoreError::unavailable("a channel has moved"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Subscribes and unsubscribes, each at the server that has the partition.
    async fn carry_out(&mut self, line: &mut Line, orders: Vec<Order>) -> StoreResult<()> {
        let mut commands = vec![Pipeline::new(); line.connections.len()];
        let mut told = Vec::new();
        let hints = self.hints.clone();
        let wanted = |channel: &str| locked(&hints.wanted).get(channel).cloned();
        let mut greeted = Vec::new();
        for order in orders {
            match order {
                Order::Subscribe(channel, waiting) => {
                    // It may be wanted no more.
                    if let Some(Wanted {
                        partition, topic, ..
                    }) = wanted(&channel)
                    {
                        let place = line.layout.place(partition);
                        commands[place].cmd("SSUBSCRIBE").arg(channel);
                        told.extend(waiting);
                        greeted.extend((topic == Topic::Marks).then_some(partition));
                    }
                }
                Order::Unsubscribe(channel) => {
                    // It may be wanted again.
                    if wanted(&channel).is_none() {
                        let place = line.layout.place(self.partition_of(&channel));
                        commands[place].cmd("SUNSUBSCRIBE").arg(&channel);
                        *self.leaving.entry(channel).or_default() += 1;
                    }
                }
            }
        }
        for (connection, commands) in line.connections.iter_mut().zip(&commands) {
            let Some(connection) = connection.as_mut().filter(|_| !commands.is_empty()) else {
                continue;
            };
            let done: Result<Vec<Value>, _> = commands.query_async(connection).await;
            done.map_err(|error| {
                self.hints.servers.stale();
                self.tell_refusal(&error);
                StoreError::unavailable(error)
            })?;
        }
        for waiting in told {
            // Who has given up does not mind.
            let _ = waiting.send(());
        }
        hints.greet(&line.layout, &greeted);
        Ok(())
    }

    /// All else continues without hints, only later, so that nobody would notice.
    fn tell_refusal(&mut self, error: &RedisError) {
        if error.code() == Some("NOPERM") && !std::mem::replace(&mut self.is_refusal_told, true) {
            tracing::warn!(
                %error,
                "this user of Redis may not listen to the store's channels: work is found later than \
                 it could be, and writes that a server loses together with the process that made them \
                 may not be missed"
            );
        }
    }

    /// The partition that a channel's tag names.
    fn partition_of(&self, channel: &str) -> u16 {
        let digits = channel.split_once("{p").and_then(|(_, rest)| rest.get(..3));
        let number = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        number.unwrap_or_default()
    }

    fn check(&self, line: &Line) -> StoreResult<()> {
        let is_whole = line.connections.iter().all(Option::is_some);
        if is_whole && self.hints.servers.is_known(&line.layout) {
            return Ok(());
        }
        Err(StoreError::unavailable("the servers have changed"))
    }

    /// Looks whether followed sessions have grown or ended unheard.
    async fn look_again(&self) -> StoreResult<()> {
        let followed = self.hints.followed();
        if followed.is_empty() {
            return Ok(());
        }
        let questions = followed.iter().map(|key| {
            let names = self.hints.names.session(key);
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(names.hash()).arg(&["seq", "del"]);
            (names.partition.number, cmd)
        });
        let answers = self.hints.servers.ask_some(VERY_LATE, questions).await?;
        for (key, answer) in followed.iter().zip(answers) {
            let Some(Ok(mut fields)) = answer.map(Reply::new) else {
                continue;
            };
            match (fields.number(), fields.optional()) {
                (Ok(seq), _) => self.hints.hub.looked(key, seq),
                (Err(_), Ok(None)) => self.hints.hub.looked(key, 0),
                (Err(_), _) => self.hints.hub.deleted(key),
            }
        }
        Ok(())
    }
}
