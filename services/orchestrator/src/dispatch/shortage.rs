//! STOP: what the pool lacks for waiting attempts. It is logged, and sent to executors, once for each need and not for
//! each attempt.

use super::queue::{Presence, Queue};
use cairn_engine::pool::{Missing, Need};
use cairn_proto::event::{MissingCapability, ShortageKind};
use cairn_proto::executor::NotifyShortageRequest;
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_rpc::metrics::{self, gauge};
use cairn_rpc::{Link, RpcError};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;
use tonic::Request;

/// Most needs whose shortages are kept. Plans can name any.
const MOST: usize = 256;
/// How long an executor may take to answer a notice. Nothing depends on the answer.
const NOTICE_TIME: Duration = Duration::from_secs(5);

/// The needs that the pool is short of.
#[derive(Debug, Default)]
pub(super) struct Shortages {
    short: BTreeMap<Need, Short>,
    /// Attempts that wait for what no resource has, and are in no queue.
    lacking: BTreeMap<Need, usize>,
    /// The last value of the gauge; none before the first.
    shown: Option<usize>,
}

#[derive(Debug)]
struct Short {
    missing: Vec<Missing>,
    is_none: bool,
}

impl Shortages {
    /// An attempt waits for what no resource has.
    pub(super) fn begin_lack(&mut self, need: &Need) {
        *self.lacking.entry(need.clone()).or_default() += 1;
    }

    /// It waits no more, or in the queue.
    pub(super) fn end_lack(&mut self, need: &Need) {
        if let Some(attempts) = self.lacking.get_mut(need) {
            *attempts -= 1;
            if *attempts == 0 {
                self.lacking.remove(need);
            }
        }
    }

    /// The needs of attempts that wait for what no resource has, each with the number of these.
    pub(super) fn lacking(&self) -> impl Iterator<Item = (&Need, usize)> {
        self.lacking
            .iter()
            .map(|(need, &attempts)| (need, attempts))
    }

    /// An attempt lacks this. Returns the notices for executors; none if the shortage is known, or too many are.
    pub(super) fn begin(
        &mut self,
        need: &Need,
        missing: &[Missing],
        is_none: bool,
    ) -> Vec<NotifyShortageRequest> {
        let is_known = |short: &Short| short.is_none == is_none;
        if self.short.get(need).is_some_and(is_known) {
            return Vec::new();
        }
        if self.short.len() >= MOST && !self.short.contains_key(need) {
            return Vec::new();
        }
        let short = Short {
            missing: missing.to_vec(),
            is_none,
        };
        self.short.insert(need.clone(), short);
        self.publish();
        let (kind, state) = match is_none {
            true => (ShortageKind::None, "none"),
            false => (ShortageKind::Busy, "busy"),
        };
        let notice = |it: &Missing| {
            let (capability, available, total) = (name_of(it), it.available, it.total);
            tracing::warn!(capability, available, total, state, "capability short");
            notice(it, kind)
        };
        missing.iter().map(notice).collect()
    }

    /// Takes out what is short no longer: no attempt waits for it, or, if nothing had it, something has it now.
    /// Returns the notices for executors.
    pub(super) fn end_over(&mut self, queue: &Queue<Instant>) -> Vec<NotifyShortageRequest> {
        if self.short.is_empty() {
            return Vec::new();
        }
        let needs = queue.needs().map(|(need, _)| need);
        let waited_for: BTreeSet<&Need> = needs.chain(self.lacking.keys()).collect();
        let mut ended: Vec<Missing> = Vec::new();
        self.short.retain(|need, short| {
            let is_found = || short.is_none && queue.members.presence(need) == Presence::Reached;
            let lasts = waited_for.contains(need) && !is_found();
            if !lasts {
                ended.append(&mut short.missing);
            }
            lasts
        });
        self.publish();
        // Another need may lack the same capability still.
        let lasting = self.short.values().flat_map(|short| &short.missing);
        let mut known: BTreeSet<(&str, u32)> = lasting.map(named).collect();
        let mut notices = Vec::new();
        for missing in &ended {
            if known.insert(named(missing)) {
                let capability = name_of(missing);
                tracing::info!(capability, "capability no longer short");
                notices.push(notice(missing, ShortageKind::Unspecified));
            }
        }
        notices
    }

    fn publish(&mut self) {
        let missing = self.short.values().flat_map(|short| &short.missing);
        let names: BTreeSet<&str> = missing.map(name_of).collect();
        let count = names.len();
        if self.shown.replace(count) != Some(count) {
            gauge!(metrics::CAPABILITIES_SHORT).set(count as f64);
        }
    }
}

/// The capability, or the tool that no executor may use.
fn name_of(missing: &Missing) -> &str {
    match (missing.capability.as_str(), missing.tools.first()) {
        ("", Some(tool)) => tool,
        (capability, _) => capability,
    }
}

fn named(missing: &Missing) -> (&str, u32) {
    (name_of(missing), missing.level)
}

fn notice(missing: &Missing, kind: ShortageKind) -> NotifyShortageRequest {
    NotifyShortageRequest {
        missing: Some(MissingCapability {
            capability: missing.capability.clone(),
            level: missing.level,
            available: missing.available,
            total: missing.total,
            tools: missing.tools.clone(),
        }),
        kind: kind.into(),
    }
}

/// Sends the notices to each of these executors, in tasks of their own.
pub(super) fn send(notices: &[NotifyShortageRequest], executors: Vec<Link>) {
    // Without a runtime the process is ending, and no executor needs a notice.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    if notices.is_empty() {
        return;
    }
    for link in executors {
        let notices = notices.to_vec();
        runtime.spawn(async move {
            let mut executor = ExecutorServiceClient::new(link);
            for notice in notices {
                let mut request = Request::new(notice);
                request.set_timeout(NOTICE_TIME);
                if let Err(status) = executor.notify_shortage(request).await {
                    let error = RpcError::from_status(&status);
                    tracing::debug!(%error, "an executor was not notified of a shortage");
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
