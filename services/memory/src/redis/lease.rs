//! Leases that go on, end cleanly, or are taken up again after quarantine.

use super::clocks::middle;
use super::failure::Effect;
use super::inner::Inner;
use super::keys;
use crate::aside;
use crate::port::{
    OwnedSession, Quarantine, ReleaseRequest, RenewRequest, Renewed, SessionKey, StoreError,
    StoreResult,
};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// Most sessions that one script renews, so that nobody waits for it.
const BATCH: usize = 128;

/// So long a renewal waits for each server, or for a sixth of the lease if that is longer: owners
/// renew three times a lease.
const PATIENCE: Duration = Duration::from_secs(1);

impl Inner {
    /// See [`Store::renew`](crate::port::Store::renew).
    pub(super) async fn renew(&self, request: RenewRequest) -> StoreResult<Renewed> {
        let lease = i64::from(request.lease_ms);
        if request.sessions.is_empty() {
            let now = self.now().await?;
            return Ok(Renewed {
                lease_until_unix_ms: now + lease,
                now_unix_ms: now,
                ..Renewed::default()
            });
        }
        let mut partitions: BTreeMap<u16, Vec<(usize, &OwnedSession)>> = BTreeMap::new();
        for (place, owned) in request.sessions.iter().enumerate() {
            let partition = partitions.entry(keys::partition(&owned.key));
            partition.or_default().push((place, owned));
        }
        let batches = partitions.iter().flat_map(|(&partition, sessions)| {
            let batches = sessions.chunks(BATCH);
            batches.map(move |batch| (partition, batch))
        });
        let renewals =
            batches.map(|(partition, batch)| self.renew_batch(&request, partition, batch));
        let (mut batches, mut failure, mut unanswered) = (Vec::new(), None, Vec::new());
        for batch in join_all(renewals).await {
            match batch {
                Ok(batch) => batches.push(batch),
                Err((places, error)) => {
                    unanswered.extend(places);
                    failure = Some(error);
                }
            }
        }
        if let Some(error) = failure.filter(|_| batches.is_empty()) {
            return Err(error);
        }
        unanswered.sort_unstable();
        let unanswered = unanswered.into_iter();
        let now = middle(batches.iter().map(|batch| batch.now)).unwrap_or_default();
        let ends = batches.iter().map(|batch| batch.ends);
        // Servers' clocks may differ a little: nobody works beyond the first end. One that has passed
        // is of a clock that is wrong.
        let ends = ends.filter(|end| *end > now).min();
        let mut renewed = Renewed {
            lease_until_unix_ms: ends.unwrap_or(now),
            now_unix_ms: self.servers.time.take(now),
            unanswered: unanswered
                .map(|place| request.sessions[place].key.clone())
                .collect(),
            ..Renewed::default()
        };
        let mut states: Vec<_> = batches.into_iter().flat_map(|batch| batch.states).collect();
        states.sort_unstable();
        for (place, state) in states {
            let key = || request.sessions[place].key.clone();
            match state {
                0 => renewed.lost.push(key()),
                2 => renewed.woken.push(key()),
                _ => {}
            }
        }
        Ok(renewed)
    }

    /// What became of the sessions, or which places among all have no answer, and why.
    async fn renew_batch(
        &self,
        request: &RenewRequest,
        partition: u16,
        sessions: &[(usize, &OwnedSession)],
    ) -> Result<Batch, (Vec<usize>, StoreError)> {
        let names = self.names.partition(partition);
        let members = sessions.iter().map(|(_, owned)| keys::member(&owned.key));
        let members: Vec<_> = members.collect();
        let hashes = members.iter().map(|member| names.hash(member));
        let queues = [names.leases(), names.newer()];
        let keys: Vec<_> = queues.into_iter().chain(hashes).collect();
        let call = self.scripts.renew.call(&keys);
        let call = call
            .arg(&request.owner)
            .arg(request.lease_ms)
            .arg(sessions.len());
        let call = sessions
            .iter()
            .zip(&members)
            .fold(call, |call, ((_, owned), member)| {
                call.arg(member).arg(owned.epoch)
            });
        let renewal = self.run(partition, call, Effect::Writes, |_, reply| {
            let (now, ends) = (reply.int()?, reply.int()?);
            let states = sessions
                .iter()
                .map(|(place, _)| Ok((*place, reply.int()?)))
                .collect::<Result<_, _>>()?;
            Ok(Batch { now, ends, states })
        });
        // A server that is frozen must not keep the news of the others until leases have ended.
        let patience = PATIENCE.max(Duration::from_millis(u64::from(request.lease_ms / 6)));
        let late = |_| StoreError::unavailable("leases could not be renewed in time");
        let renewed = timeout(patience, renewal).await.map_err(late).flatten();
        renewed.map_err(|error| (sessions.iter().map(|(place, _)| *place).collect(), error))
    }

    /// See [`Store::release`](crate::port::Store::release).
    pub(super) async fn release(&self, request: ReleaseRequest) -> StoreResult<()> {
        let names = self.names.session(&request.key);
        let partition = names.partition.number;
        let keys = [
            names.hash(),
            names.partition.leases(),
            names.partition.due(),
            names.partition.work(),
            names.partition.newer(),
        ];
        let call = self.scripts.release.call(&keys);
        let call = call
            .arg(&names.member)
            .arg(&self.process)
            .arg(&request.owner)
            .arg(request.epoch)
            .arg(request.delay_ms);
        self.run(partition, call, Effect::Writes, |_, _| Ok(()))
            .await?;
        self.queue.mark(&self.hub, partition);
        Ok(())
    }

    /// See [`Store::quarantine`](crate::port::Store::set_aside).
    pub(super) async fn quarantine(
        &self,
        key: &SessionKey,
        accepted_losses: Option<u64>,
    ) -> StoreResult<bool> {
        let names = self.names.session(key);
        let keys = names.for_setting_aside();
        let known = accepted_losses.map(|losses| losses.to_string());
        let call = self.scripts.quarantine.call(&keys);
        let call = call
            .arg(&names.member)
            .arg(known.as_deref().unwrap_or_default());
        let partition = names.partition.number;
        let done = self.run(partition, call, Effect::Writes, |_, reply| reply.int());
        let done = done.await?;
        if done == 1 {
            aside::tell(key, Quarantine::WritesLost);
        }
        Ok(done >= 0)
    }

    /// See [`Store::release_quarantine`](crate::port::Store::release_quarantine).
    pub(super) async fn release_quarantine(
        &self,
        key: &SessionKey,
        accept_loss: bool,
    ) -> StoreResult<()> {
        let names = self.names.session(key);
        let partition = names.partition.number;
        let keys = [
            names.hash(),
            names.partition.due(),
            names.partition.aside(),
            names.partition.work(),
        ];
        let call = self.scripts.release_quarantine.call(&keys);
        let call = call
            .arg(&names.member)
            .arg(&self.process)
            .arg(u8::from(accept_loss));
        self.run(partition, call, Effect::Writes, |_, _| Ok(()))
            .await?;
        self.queue.mark(&self.hub, partition);
        Ok(())
    }
}

struct Batch {
    now: i64,
    ends: i64,
    /// The place of each session in the request, and what became of its lease.
    states: Vec<(usize, i64)>,
}
