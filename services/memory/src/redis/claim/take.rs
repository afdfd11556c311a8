//! Taking what was found: a script in each partition.

use super::{BAND, Candidate};
use crate::aside;
use crate::port::{Claim, ClaimRequest, Lease, Level, Quarantine, StoreError, StoreResult};
use crate::redis::failure::Effect;
use crate::redis::inner::Inner;
use crate::redis::keys;
use futures::future::join_all;
use std::collections::BTreeMap;

/// Claims without progress after which a session is quarantined.
pub(in crate::redis) const MAX_CLAIMS: u32 = 5;

/// Most sessions that one script claims, so that nobody waits for it.
const BATCH: usize = 32;

/// What the script answers in the place of an epoch. What is less than these is less by what the session
/// needs, which is above the claimer's level.
const SET_ASIDE: i64 = -1;
const UNKNOWN_FORMAT: i64 = -2;

/// What became of candidates.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) claims: Vec<Claim>,
    /// Some were quarantined, so that there is room for others.
    pub(super) quarantine: bool,
    /// Some were left to claimers of a higher level.
    pub(super) is_above: bool,
    /// Those that only a newer program can claim.
    pub(super) strange: Vec<String>,
    /// When that was.
    pub(super) now: i64,
    pub(super) error: Option<StoreError>,
}

impl Inner {
    /// Claims those of the candidates that can still be claimed.
    pub(super) async fn take(&self, request: &ClaimRequest, candidates: Vec<Candidate>) -> Outcome {
        let mut partitions: BTreeMap<u16, Vec<(usize, Candidate)>> = BTreeMap::new();
        for (place, candidate) in candidates.into_iter().enumerate() {
            let partition = partitions.entry(candidate.partition);
            partition.or_default().push((place, candidate));
        }
        let batches = partitions.iter().flat_map(|(&partition, candidates)| {
            let batches = candidates.chunks(BATCH);
            batches.map(move |batch| self.take_batch(request, partition, batch))
        });
        let mut outcome = Outcome::default();
        let mut claims = Vec::new();
        for batch in join_all(batches).await {
            match batch {
                Ok((claimed, batch)) => {
                    claims.extend(claimed);
                    outcome.quarantine |= batch.quarantine;
                    outcome.is_above |= batch.is_above;
                    outcome.strange.extend(batch.strange);
                    outcome.now = outcome.now.max(batch.now);
                }
                Err(error) => outcome.error = Some(error),
            }
        }
        claims.sort_unstable_by_key(|(place, _)| *place);
        outcome.claims = claims.into_iter().map(|(_, claim)| claim).collect();
        outcome
    }

    async fn take_batch(
        &self,
        request: &ClaimRequest,
        partition: u16,
        candidates: &[(usize, Candidate)],
    ) -> StoreResult<(Vec<(usize, Claim)>, Outcome)> {
        let names = self.names.partition(partition);
        let hashes = candidates.iter().map(|(_, c)| names.hash(&c.member));
        let queues = [names.leases(), names.due(), names.aside(), names.newer()];
        let keys: Vec<_> = queues.into_iter().chain(hashes).collect();
        let call = self.scripts.claim.call(&keys);
        let call = call
            .arg(&request.owner)
            .arg(request.lease_ms)
            .arg(MAX_CLAIMS)
            .arg(request.level.number())
            .arg(BAND)
            .arg(candidates.len());
        let call = candidates.iter().fold(call, |call, (_, candidate)| {
            call.arg(&candidate.member).arg(candidate.kind as u8)
        });
        self.run(partition, call, Effect::Writes, |_, reply| {
            let (now, until_unix_ms) = (reply.int()?, reply.int()?);
            let mut claims = Vec::with_capacity(candidates.len());
            let mut outcome = Outcome {
                now,
                ..Outcome::default()
            };
            for (place, candidate) in candidates {
                let epoch = reply.int()?;
                let key = keys::session_of(&candidate.member);
                if epoch == SET_ASIDE {
                    outcome.quarantine = true;
                    key.iter()
                        .for_each(|key| aside::tell(key, Quarantine::Claims));
                }
                if epoch == UNKNOWN_FORMAT {
                    outcome.strange.push(candidate.member.clone());
                }
                if epoch < UNKNOWN_FORMAT {
                    outcome.is_above = true;
                    let needs = Level::of_stored(UNKNOWN_FORMAT - epoch);
                    self.queue.leave(&self.hub, partition, needs);
                }
                let (Ok(epoch), Some(key)) = (u64::try_from(epoch), key) else {
                    continue;
                };
                if epoch > 0 {
                    let lease = Lease {
                        epoch,
                        until_unix_ms,
                    };
                    let claim = Claim {
                        key,
                        lease,
                        previous_holder_dead: false,
                    };
                    claims.push((*place, claim));
                }
            }
            Ok((claims, outcome))
        })
        .await
    }
}
