//! Before a server is asked anything, it is held against what is known: a connection over which that
//! was done is vouched for, for a while.

use super::identity::Answer;
use super::node::{Live, Node};
use super::servers::Servers;
use super::witness::{Checked, Standing};
use crate::port::StoreResult;
use cairn_rpc::{BootClock, Monotonic as _};
use futures::future::join;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// Before a server is held once more against what is known of keys that were being moved.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// A server that has lost something while its connections stayed was a replica meanwhile, and got
/// another's data. That takes longer than this.
const VOUCHED_FOR: Duration = Duration::from_millis(500);

/// With less than this left it is looked at again while it is still vouched for, so that whoever calls
/// all the time does not wait.
const AGED: Duration = Duration::from_millis(250);

/// A connection to a server that was found to have what is known.
#[derive(Clone)]
pub(super) struct Vouched {
    pub(super) live: Live,
    /// What of it that was; `None` if it is a replica, which is not held against anything, and is asked
    /// for no session.
    pub(super) checked: Option<Arc<Checked>>,
}

/// What a server was when it was held against what is known.
pub(super) struct History {
    /// Whose writes it had, if it tells.
    lineage: Option<String>,
    checked: Arc<Checked>,
}

impl Servers {
    /// A connection to a server, over which it was found to have what is known.
    pub(super) async fn vouched(self: &Arc<Self>, node: &Arc<Node>) -> StoreResult<Vouched> {
        self.identity.check()?;
        let vouch = || {
            let (servers, its) = (self.clone(), node.clone());
            async move { servers.vouch(&its).await }
        };
        if let Some(live) = node.live()
            && let Some((checked, left)) = live.checked()
        {
            if left.is_some_and(|left| left < AGED) {
                node.vouching.begin(vouch);
            }
            let checked = Some(checked);
            return Ok(Vouched { live, checked });
        }
        // Everybody who asks meanwhile waits for the same.
        let given_up = || Err(node.given_up());
        let vouched = node.vouching.join(vouch).await.unwrap_or_else(given_up);
        if vouched.is_err() || !node.is_doubted() {
            return vouched;
        }
        // That may have begun before the doubt of whoever asks now; the next has not. Later doubts are
        // for those who ask later.
        node.vouching.join(vouch).await.unwrap_or_else(given_up)
    }

    async fn vouch(self: Arc<Self>, node: &Arc<Node>) -> StoreResult<Vouched> {
        let live = node.connection().await?;
        loop {
            let asked = BootClock.now();
            let (standing, answer) =
                join(Standing::of(node, &live), self.ask_identity(node, &live)).await;
            let standing = standing?;
            let is_doubted = node.take_doubt();
            let before = node.history().take();
            if !standing.is_master {
                live.distrust();
                // Another may be, and what this one had may become another's.
                self.stale();
                self.vouched_times.fetch_add(1, Ordering::AcqRel);
                // Whatever it lacks it may still get.
                let checked = None;
                return Ok(Vouched { live, checked });
            }
            let answer = answer?;
            if self.identity.refuse(node, &answer) {
                self.witness.count(1);
            }
            self.identity.check()?;
            let is_same =
                |it: &History| standing.lineage.is_some() && it.lineage == standing.lineage;
            let same = before.filter(is_same);
            let is_known = same.is_some();
            let (checked, is_new) = match same {
                Some(same) if !is_doubted => (same.checked, false),
                _ => (self.check(node, &live, &answer).await?, true),
            };
            if is_new {
                self.vouched_times.fetch_add(1, Ordering::AcqRel);
            }
            if !is_known {
                self.lookout.look_soon();
            }
            let until = standing.lineage.as_ref().map(|_| asked + VOUCHED_FOR);
            *node.history() = Some(History {
                lineage: standing.lineage,
                checked: checked.clone(),
            });
            // It took so long that it may be another by now.
            let is_late = is_new && until.is_some_and(|until| until < BootClock.now());
            if !is_late {
                node.vouch(&live, &checked, until);
                let checked = Some(checked);
                return Ok(Vouched { live, checked });
            }
        }
    }

    /// Asked each time, because a server can be emptied while it runs.
    async fn ask_identity(&self, node: &Arc<Node>, live: &Live) -> StoreResult<Answer> {
        match Arc::ptr_eq(self.known().node(0), node) {
            true => self.identity.ask(node, live).await,
            // The server of partition 0 has it.
            false => Ok(Answer::Elsewhere),
        }
    }

    async fn check(
        &self,
        node: &Arc<Node>,
        live: &Live,
        identity: &Answer,
    ) -> StoreResult<Arc<Checked>> {
        // What was vouched for was another.
        live.distrust();
        let layout = self.known();
        let has = |partition| Arc::ptr_eq(layout.node(partition), node);
        let given = self.time.given();
        // Partition 0 may be on its way to another server.
        let away = matches!(identity, Answer::Elsewhere) && has(0);
        let away = away.then_some(0);
        let checked = self.witness.check(node, live, has, away, given).await?;
        if !checked.is_whole() {
            self.doubt_later(node);
        }
        Ok(Arc::new(checked))
    }

    /// Keys were on their way to another server, and may come to stay where they are; or the server
    /// did not take the mark that something is lost.
    fn doubt_later(&self, node: &Arc<Node>) {
        self.stale();
        if !node.begin_waiting() {
            return;
        }
        let node = Arc::downgrade(node);
        tokio::spawn(async move {
            tokio::time::sleep(CHECK_AGAIN).await;
            if let Some(node) = node.upgrade() {
                node.doubt_after_waiting();
            }
        });
    }
}

impl Node {
    fn history(&self) -> MutexGuard<'_, Option<History>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
