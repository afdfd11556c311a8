//! Looks at the servers' settings again while the store is open: they can be changed at any time,
//! and a server that takes over has its own.

use super::layout::Plan;
use super::servers::Servers;
use super::settings::Durability;
use super::survey::{Picture, survey};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// What is known of the settings, and the task that keeps that true.
pub(super) struct Lookout {
    servers: Weak<Servers>,
    plan: Plan,
    /// How often it looks by itself.
    interval: Duration,
    require_durable: bool,
    picture: tokio::sync::Mutex<Picture>,
    durability: watch::Sender<Durability>,
    changed: Notify,
    task: Mutex<State>,
}

/// The task begins when there is a server to look at.
enum State {
    Idle,
    Looking(AbortHandle),
    Closed,
}

impl Lookout {
    pub(super) fn new(
        servers: Weak<Servers>,
        plan: Plan,
        interval: Duration,
        require_durable: bool,
        picture: Picture,
    ) -> Arc<Self> {
        Arc::new(Self {
            servers,
            plan,
            interval,
            require_durable,
            durability: watch::Sender::new(picture.durability()),
            picture: tokio::sync::Mutex::new(picture),
            changed: Notify::new(),
            task: Mutex::new(State::Idle),
        })
    }

    /// Whether the servers keep what was answered, as far as is known.
    pub(super) fn durability(&self) -> watch::Receiver<Durability> {
        self.durability.subscribe()
    }

    /// Whether the store has to keep what it answers, and does not.
    pub(super) fn refuses_new(&self) -> bool {
        self.require_durable && *self.durability.borrow() != Durability::Durable
    }

    /// A server is another than it was, or the first: its settings are looked at soon.
    pub(super) fn look_soon(self: &Arc<Self>) {
        self.changed.notify_one();
        let mut state = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Idle) {
            let task = tokio::spawn(self.clone().look_on());
            *state = State::Looking(task.abort_handle());
        }
    }

    /// Looks no more.
    pub(super) fn close(&self) {
        let mut state = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Looking(task) = std::mem::replace(&mut *state, State::Closed) {
            task.abort();
        }
    }

    async fn look_on(self: Arc<Self>) {
        let first = Instant::now() + self.interval;
        let mut ticks = tokio::time::interval_at(first, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.changed.notified() => {}
            }
            let Some(servers) = self.servers.upgrade() else {
                return;
            };
            self.look(&servers).await;
        }
    }

    async fn look(&self, servers: &Servers) {
        let layout = match servers.present().await {
            Ok(layout) => layout,
            Err(error) => {
                tracing::debug!(%error, "the settings of the servers cannot be looked at for now");
                return;
            }
        };
        let said = survey(&self.plan, &layout).await;
        let mut picture = self.picture.lock().await;
        picture.take_in(said);
        let durability = picture.durability();
        let is_news = self.durability.send_if_modified(|known| {
            let is_news = *known != durability;
            known.clone_from(&durability);
            is_news
        });
        if is_news {
            self.tell(&durability);
        }
    }

    fn tell(&self, durability: &Durability) {
        let name = durability.name();
        let Durability::Degraded { reasons } = durability else {
            tracing::info!(durability = name, "the store keeps what it answers again");
            return;
        };
        for reason in reasons {
            tracing::warn!(
                durability = name,
                reason,
                "the settings of the store's servers have changed: what was answered may be lost"
            );
        }
        if self.require_durable {
            tracing::error!(
                durability = name,
                "the store is not durable any more, and store.redis.require_durable asks for it: no \
                 new run is accepted until it is; what was accepted goes on"
            );
        }
    }
}
