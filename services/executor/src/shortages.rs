//! Shortages of the pool that orchestrators report, each logged once.

use cairn_engine::pool::{Needed, is_capability};
use cairn_proto::event::{MissingCapability, ShortageKind};
use cairn_proto::executor::NotifyShortageRequest;
use cairn_rpc::RpcError;
use cairn_rpc::text::escape;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The same notice within this time is a retry, and is not logged. After that it is: the notice of the end may have
/// been lost in between.
const RETRY: Duration = Duration::from_secs(60);
/// Most shortages that are remembered. One more forgets all of them, so they may be logged again.
const MOST: usize = 1024;

/// The shortages that were reported and have not ended.
#[derive(Debug, Default)]
pub(crate) struct Shortages(Mutex<BTreeMap<Needed, Noted>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Noted {
    available: u32,
    total: u32,
    kind: ShortageKind,
    at: Instant,
}

impl Noted {
    fn is_retry_of(&self, earlier: &Self) -> bool {
        let same = Self {
            at: earlier.at,
            ..*self
        };
        same == *earlier && self.at < earlier.at + RETRY
    }
}

impl Shortages {
    /// Logs a notice unless it is a retry.
    ///
    /// # Errors
    /// It names nothing that may be missing, or a kind that is not known here.
    pub(crate) fn note(&self, notice: NotifyShortageRequest) -> Result<(), RpcError> {
        let kind = ShortageKind::try_from(notice.kind).map_err(|_| {
            let error = RpcError::invalid("kind", format!("is {}", notice.kind));
            error.allowed("a SHORTAGE_KIND that this executor knows")
        })?;
        let missing = notice.missing.ok_or_else(|| RpcError::missing("missing"))?;
        let needed = needed(&missing)?;
        let noted = Noted {
            available: missing.available,
            total: missing.total,
            kind,
            at: Instant::now(),
        };
        match kind {
            ShortageKind::Busy => self.begins(needed, noted, "busy"),
            ShortageKind::None => self.begins(needed, noted, "none"),
            ShortageKind::Unspecified => self.ends(&needed),
        }
        Ok(())
    }

    fn begins(&self, needed: Needed, noted: Noted, state: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known
            .get(&needed)
            .is_some_and(|earlier| noted.is_retry_of(earlier))
        {
            return;
        }
        let Noted {
            available, total, ..
        } = noted;
        tracing::warn!(capability = %needed, available, total, state, "capability short");
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(needed, noted);
    }

    fn ends(&self, needed: &Needed) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.remove(needed).is_some() {
            tracing::info!(capability = %needed, "capability no longer short");
        }
    }
}

/// What is missing. A tool that no executor may use stands in place of a capability.
fn needed(missing: &MissingCapability) -> Result<Needed, RpcError> {
    let capability = match (missing.capability.as_str(), missing.tools.as_slice()) {
        ("", [tool]) => escape(tool).into_owned(),
        (name, _) if is_capability(name) => name.to_owned(),
        _ => {
            let error = RpcError::invalid("missing.capability", "names no capability");
            let allowed =
                "1 to 64 lower-case letters, digits, '_', '-', '.' and ':'; or empty with one tool";
            return Err(error.allowed(allowed));
        }
    };
    Ok(Needed {
        capability,
        level: missing.level,
    })
}
