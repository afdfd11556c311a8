//! What all operations of a store share.

use super::answer::{Status, status};
use super::clocks::{Apart, Reading, apart, middle};
use super::failure::{Effect, odd};
use super::format::Formats;
use super::hints::Hints;
use super::keys::Names;
use super::queue::Queue;
use super::script::{Call, Odd, Reply, Scripts, int};
use super::servers::Servers;
use super::unchanged::Unchanged;
use crate::hub::Hub;
use crate::port::{Limits, StoreResult};
use std::fmt;
use std::sync::Arc;

/// An open store. Each operation is an `impl` beside its script's arguments.
pub(super) struct Inner {
    pub(super) servers: Arc<Servers>,
    pub(super) scripts: Scripts,
    pub(super) names: Names,
    pub(super) formats: Formats,
    pub(super) limits: Limits,
    pub(super) unchanged: Unchanged,
    pub(super) hub: Arc<Hub>,
    pub(super) queue: Arc<Queue>,
    pub(super) hints: Arc<Hints>,
    /// Names this opening in hints, so that it knows its own.
    pub(super) process: String,
    #[cfg(debug_assertions)]
    pub(super) fail_point: crate::fail_point::FailPoint,
}

impl Inner {
    /// Runs a script and takes its answer apart.
    pub(super) async fn run<T>(
        &self,
        partition: u16,
        call: Call<'_>,
        effect: Effect,
        parse: impl FnOnce(Status, &mut Reply) -> Result<T, Odd>,
    ) -> StoreResult<T> {
        let mut reply = self.servers.call(partition, call, effect).await?;
        let status = status(&mut reply, effect)?;
        parse(status, &mut reply).map_err(|error| odd(effect, error))
    }

    /// The same for a script that makes an owner's transition, a creation, a command or a document durable.
    pub(super) async fn run_commit<T>(
        &self,
        partition: u16,
        call: Call<'_>,
        parse: impl FnOnce(Status, &mut Reply) -> Result<T, Odd>,
    ) -> StoreResult<T> {
        #[cfg(debug_assertions)]
        let number = self.fail_point.before();
        let done = self.run(partition, call, Effect::Writes, parse).await?;
        #[cfg(debug_assertions)]
        self.fail_point.after(number);
        Ok(done)
    }

    /// See [`Store::now`](crate::port::Store::now). Of several servers the time of most.
    pub(super) async fn now(&self) -> StoreResult<i64> {
        Ok(self.servers.time.take(self.now_there().await?.0))
    }

    /// The same, and which servers differ.
    pub(super) async fn now_there(&self) -> StoreResult<(i64, Option<Apart>)> {
        if let Some(now) = self.servers.time.given() {
            return Ok((now, None));
        }
        let times = self.servers.ask_servers(&redis::cmd("TIME")).await?;
        let readings: Result<Vec<_>, _> = times.into_iter().map(Reading::of).collect();
        let readings = readings.map_err(|error| odd(Effect::Reads, error))?;
        let now = middle(readings.iter().map(|it| it.unix_ms));
        Ok((now.unwrap_or_default(), apart(&readings)))
    }
}

/// A score of a sorted set.
pub(super) fn score(value: &redis::Value) -> Result<i64, Odd> {
    int(value).ok_or(Odd)
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("servers", &self.servers)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
