//! Looks at the servers' settings again while the store is open: they can be changed at any time,
//! and a server that takes over has its own.

use super::durability::Durability;
use super::keys::Names;
use super::layout::Plan;
use super::servers::Servers;
use super::survey::{InPart, Picture, survey};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Before the next look if not everybody answered.
const SOON: Duration = Duration::from_secs(1);

/// What is known of the settings, and the task that keeps that true.
pub(super) struct Lookout {
    servers: Weak<Servers>,
    plan: Plan,
    names: Names,
    /// How often it looks by itself.
    interval: Duration,
    require_durable: bool,
    picture: tokio::sync::Mutex<Picture>,
    durability: watch::Sender<Durability>,
    /// What keeps servers from their work.
    outages: watch::Sender<Vec<String>>,
    changed: Notify,
    failed: Notify,
    task: Mutex<State>,
}

/// The task begins when there is a server to look at, or to look for.
enum State {
    Idle,
    Looking(AbortHandle),
    Closed,
}

impl Lookout {
    pub(super) fn new(
        servers: Weak<Servers>,
        plan: Plan,
        names: Names,
        interval: Duration,
        require_durable: bool,
        picture: Picture,
    ) -> Arc<Self> {
        Arc::new(Self {
            servers,
            plan,
            names,
            interval,
            require_durable,
            durability: watch::Sender::new(picture.durability()),
            picture: tokio::sync::Mutex::new(picture),
            outages: watch::Sender::default(),
            changed: Notify::new(),
            failed: Notify::new(),
            task: Mutex::new(State::Idle),
        })
    }

    /// Whether the servers keep what was answered, as far as is known.
    pub(super) fn durability(&self) -> watch::Receiver<Durability> {
        self.durability.subscribe()
    }

    /// What keeps the servers from their work, as far as is known.
    pub(super) fn outages(&self) -> watch::Receiver<Vec<String>> {
        self.outages.subscribe()
    }

    /// A call failed: what keeps the servers from answering is looked for, once for many calls.
    pub(super) fn call_failed(self: &Arc<Self>) {
        self.failed.notify_one();
        self.begin();
    }

    /// Whether the store has to keep what it answers, and does not.
    pub(super) fn refuses_new(&self) -> bool {
        self.require_durable && *self.durability.borrow() != Durability::Durable
    }

    /// A server is another than it was, or the first: its settings are looked at soon.
    pub(super) fn look_soon(self: &Arc<Self>) {
        self.changed.notify_one();
        self.begin();
    }

    fn begin(self: &Arc<Self>) {
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
        let mut pause = self.interval;
        let mut not_before = Instant::now();
        loop {
            let failed = async {
                self.failed.notified().await;
                tokio::time::sleep_until(not_before).await;
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.changed.notified() => {}
                () = failed => {}
            }
            let Some(servers) = self.servers.upgrade() else {
                return;
            };
            pause = match self.look(&servers).await {
                Ok(()) => self.interval,
                Err(InPart) => self.interval.min(SOON),
            };
            not_before = Instant::now() + SOON;
        }
    }

    async fn look(&self, servers: &Arc<Servers>) -> Result<(), InPart> {
        let layout = servers.present().await.map_err(|error| {
            tracing::debug!(%error, "the settings of the servers cannot be looked at for now");
            InPart
        })?;
        let survey = survey(&self.plan, &layout, &self.names).await;
        let mut outages = survey.outages(servers.time.allowed_ms());
        outages.extend(servers.identity.refusal().map(|it| it.to_string()));
        let is_well = outages.is_empty();
        self.note(&outages);
        let mut picture = self.picture.lock().await;
        let whole = picture.take_in(survey);
        let durability = picture.durability();
        let known = self.durability.borrow().clone();
        if known != durability {
            self.tell(&known, &durability);
            self.durability.send_replace(durability);
        }
        whole.and(is_well.then_some(()).ok_or(InPart))
    }

    /// Each outage is told once.
    fn note(&self, outages: &[String]) {
        let known = self.outages.send_replace(outages.to_vec());
        if !outages.is_empty() && gist(&known) != gist(outages) {
            let reason = outages.join("; ");
            tracing::warn!(reason, "something keeps the store from its work for now");
        } else if outages.is_empty() && !known.is_empty() {
            tracing::info!("nothing keeps the store from its work any more");
        }
    }

    fn tell(&self, known: &Durability, durability: &Durability) {
        durability.tell(known);
        if self.require_durable && *known == Durability::Durable {
            tracing::error!(
                durability = durability.name(),
                "the store is not durable any more, and store.redis.require_durable asks for it: no \
                 new run is accepted until it is; what was accepted continues"
            );
        }
    }
}

/// What outages are about, without how many bytes it is just now.
fn gist(outages: &[String]) -> String {
    let all = outages.join("; ");
    all.chars().filter(|c| !c.is_ascii_digit()).collect()
}
