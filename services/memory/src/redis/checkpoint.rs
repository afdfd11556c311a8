//! Checkpoints: which are there, and which a new one supersedes.

use super::failure::{Effect, odd};
use super::inner::Inner;
use super::keys::Session;
use super::script::Reply;
use crate::checksum::check_checkpoint;
use crate::port::{Checkpoint, SessionKey, StoreResult};
use crate::retention::superseded;
use bytes::Buf as _;

impl Inner {
    /// The numbers of the checkpoints that are to go once this one is stored, separated by blanks.
    ///
    /// They are read before the transition, whose script checks that its sender still is the owner:
    /// only the owner adds checkpoints, so nothing can have changed by then.
    pub(super) async fn superseded(
        &self,
        names: &Session,
        checkpoint: &Checkpoint,
    ) -> StoreResult<String> {
        let mut all = redis::cmd("ZRANGE");
        all.arg(names.checkpoint_numbers()).arg(0).arg(-1);
        let question = (names.partition.number, all);
        let mut answers = Reply::of(self.servers.ask_all([question]).await?);
        let mut seqs = || {
            let mut numbers = answers.array()?;
            let mut seqs = vec![checkpoint.through_seq];
            while numbers.len() > 0 {
                seqs.push(numbers.number()?);
            }
            Ok(seqs)
        };
        let mut seqs = seqs().map_err(|error| odd(Effect::Reads, error))?;
        seqs.sort_unstable();
        seqs.dedup();
        let superseded = superseded(&seqs);
        let superseded: Vec<_> = superseded.iter().map(u64::to_string).collect();
        Ok(superseded.join(" "))
    }

    /// See [`Store::checkpoint`](crate::port::Store::checkpoint).
    pub(super) async fn checkpoint(
        &self,
        key: &SessionKey,
        at_or_before_seq: u64,
    ) -> StoreResult<Option<Checkpoint>> {
        let names = self.names.session(key);
        let keys = [
            names.hash(),
            names.checkpoints(),
            names.checkpoint_numbers(),
        ];
        let call = self.scripts.checkpoint.call(&keys).arg(at_or_before_seq);
        let read = self.run(names.partition.number, call, Effect::Reads, |_, reply| {
            if reply.len() == 0 {
                return Ok(None);
            }
            Ok(Some((reply.number()?, reply.bytes()?)))
        });
        let Some((through_seq, mut state)) = read.await? else {
            return Ok(None);
        };
        // The checksum stands before the state.
        let sum = state.try_get_u32_le().ok();
        let checkpoint = Checkpoint { through_seq, state };
        check_checkpoint(&checkpoint, sum)?;
        Ok(Some(checkpoint))
    }
}
