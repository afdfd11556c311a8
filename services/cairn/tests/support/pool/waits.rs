//! What must hold of the waits for capabilities in the journal of any session.

use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use prost::Message as _;
use std::collections::BTreeMap;
use wire::{AttemptRef, ShortageKind, WaitReason};

/// The waits of a session, by its events.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Shortages of which all resources were busy.
    pub(crate) busy: usize,
    /// Shortages that no resource could end.
    pub(crate) none: usize,
    /// Those that ended because there was a resource again.
    pub(crate) found: usize,
    /// Attempts that got their resources, again after a loss too.
    pub(crate) placed: usize,
    /// How long each of them waited, in milliseconds.
    pub(crate) waited_ms: Vec<u64>,
    /// Events while an attempt waited for busy resources, from its report to its end.
    pub(crate) while_full: usize,
    /// Bytes of the events that waits brought.
    pub(crate) bytes: usize,
    open: BTreeMap<Attempt, ShortageKind>,
    waits: bool,
}

/// Run, step and attempt.
type Attempt = (u32, u32, u32);

impl Waits {
    /// Reads the events of a session from its first.
    ///
    /// # Errors
    /// A shortage was reported twice in one wait, ended without a report, or is open at the end of the run.
    pub(crate) fn of(events: &[(u64, wire::Event)]) -> Result<Self, String> {
        let mut waits = Self::default();
        for (seq, event) in events {
            if let Some(kind) = &event.kind {
                let bytes = event.encoded_len();
                let read = waits.read(kind, bytes);
                read.map_err(|finding| format!("event {seq}: {finding}"))?;
            }
        }
        Ok(waits)
    }

    /// The waits of a session without a finding.
    ///
    /// # Panics
    /// With the finding.
    pub(crate) fn checked(events: &[(u64, wire::Event)]) -> Self {
        Self::of(events).unwrap_or_else(|finding| panic!("{finding}\n{events:#?}"))
    }

    /// Adds the waits of another session.
    pub(crate) fn add(&mut self, other: &Self) {
        self.busy += other.busy;
        self.none += other.none;
        self.found += other.found;
        self.placed += other.placed;
        self.waited_ms.extend(&other.waited_ms);
        self.while_full += other.while_full;
        self.bytes += other.bytes;
    }

    fn read(&mut self, kind: &Kind, bytes: usize) -> Result<(), String> {
        let is_full = |kind: &ShortageKind| *kind == ShortageKind::Busy;
        let was_full = self.open.values().any(is_full);
        let before = self.bytes;
        match kind {
            Kind::CapabilityShort(short) => self.short(short)?,
            Kind::CapabilityFound(found) => self.found(of(found.attempt.as_ref())?)?,
            Kind::AttemptPlaced(placed) => self.placed(placed)?,
            Kind::StepCompleted(ended) => self.completed(of(ended.attempt.as_ref())?)?,
            Kind::StepFailed(ended) => {
                self.open.remove(&of(ended.attempt.as_ref())?);
            }
            Kind::RunWaiting(waiting) if waiting.reason() == WaitReason::Capability => {
                self.waits = true;
                self.bytes += bytes;
            }
            Kind::RunResumed(_) if std::mem::take(&mut self.waits) => self.bytes += bytes,
            Kind::RunCompleted(_) if !self.open.is_empty() => {
                return Err(format!(
                    "the run completes while these wait: {:?}",
                    self.open
                ));
            }
            Kind::RunCompleted(_) | Kind::RunFailed(_) | Kind::RunCancelled(_) => self.open.clear(),
            _ => {}
        }
        if matches!(kind, Kind::CapabilityShort(_) | Kind::CapabilityFound(_)) {
            self.bytes += bytes;
        }
        // An event that neither begins nor ends a wait, and that a client did not ask for.
        let is_usual = self.bytes == before && !is_asked_for(kind);
        if was_full && is_usual && self.open.values().any(is_full) {
            self.while_full += 1;
        }
        Ok(())
    }

    fn short(&mut self, short: &wire::CapabilityShort) -> Result<(), String> {
        let (attempt, kind) = (of(short.attempt.as_ref())?, short.kind());
        match (self.open.insert(attempt, kind), kind) {
            (None, ShortageKind::Busy) => self.busy += 1,
            // All busy resources may go while an attempt waits for them.
            (None | Some(ShortageKind::Busy), ShortageKind::None) => self.none += 1,
            (before, now) => {
                return Err(format!("{attempt:?} is reported {now:?} after {before:?}"));
            }
        }
        match short.missing.is_empty() {
            true => Err(format!("{attempt:?} lacks nothing")),
            false => Ok(()),
        }
    }

    fn found(&mut self, attempt: Attempt) -> Result<(), String> {
        self.found += 1;
        match self.open.remove(&attempt) {
            Some(ShortageKind::None) => Ok(()),
            other => Err(format!("{attempt:?} found what it lacked: {other:?}")),
        }
    }

    fn placed(&mut self, placed: &wire::AttemptPlaced) -> Result<(), String> {
        let attempt = of(placed.attempt.as_ref())?;
        self.placed += 1;
        self.waited_ms.push(placed.waited_ms);
        match (self.open.remove(&attempt), placed.resources.is_empty()) {
            (Some(ShortageKind::None), _) => Err(format!("{attempt:?} is placed unfound")),
            (_, true) => Err(format!("{attempt:?} is placed nowhere")),
            _ => Ok(()),
        }
    }

    fn completed(&mut self, attempt: Attempt) -> Result<(), String> {
        match self.open.remove(&attempt) {
            None => Ok(()),
            Some(kind) => Err(format!("{attempt:?} completes, and waits: {kind:?}")),
        }
    }
}

fn of(attempt: Option<&AttemptRef>) -> Result<Attempt, String> {
    let attempt = attempt.ok_or("an event without its attempt")?;
    Ok((attempt.run, attempt.step, attempt.attempt))
}

/// A client's command, and what answers it.
fn is_asked_for(kind: &Kind) -> bool {
    matches!(kind, Kind::CommandReceived(_) | Kind::RunPaused(_))
}

/// STOP was reported.
pub(crate) fn is_short(kind: &Kind) -> bool {
    matches!(kind, Kind::CapabilityShort(_))
}

/// The run waits for a capability that no resource has.
pub(crate) fn waits_for_capability(kind: &Kind) -> bool {
    matches!(kind, Kind::RunWaiting(waiting) if waiting.reason() == WaitReason::Capability)
}
