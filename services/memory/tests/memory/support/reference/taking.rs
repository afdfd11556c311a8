//! Leases that are taken with a command.

use super::Session;
use cairn_memory::port::*;

impl Session {
    pub(super) fn take(&mut self, command: &AppendCommand, now: i64) -> Option<Taken> {
        let asked = command.lease.as_ref()?;
        let runs = self.owner.as_ref().is_some_and(|(_, until)| *until > now);
        let is_beyond = self.header.needs > command.level;
        if runs || is_beyond || self.quarantined || self.claims.is_full() {
            return None;
        }
        self.claims.claim();
        self.epoch += 1;
        let until_unix_ms = now + i64::from(asked.lease_ms);
        self.owner = Some((asked.owner.clone(), until_unix_ms));
        self.due = None;
        self.floor = self.last();
        let previous_holder_dead = std::mem::take(&mut self.holder_dead);
        let operation = command.operation_id.clone();
        self.taking = Some((operation, self.epoch, self.version, previous_holder_dead));
        Some(self.taken(previous_holder_dead, until_unix_ms))
    }

    pub(super) fn taken_before(&self, command: &AppendCommand) -> Option<Taken> {
        let asked = command.lease.as_ref()?;
        let (operation, epoch, version, dead) = self.taking.as_ref()?;
        let (owner, until) = self.owner.as_ref()?;
        let is_same = (operation, *epoch, *version)
            == (&command.operation_id, self.epoch, self.version)
            && *owner == asked.owner;
        is_same.then(|| self.taken(*dead, *until))
    }

    fn taken(&self, previous_holder_dead: bool, until_unix_ms: i64) -> Taken {
        Taken {
            lease: Lease {
                epoch: self.epoch,
                until_unix_ms,
            },
            previous_holder_dead,
        }
    }
}
