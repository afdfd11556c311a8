//! Claiming one session that is named.

use super::{Candidate, Kind};
use crate::hub::Listener;
use crate::port::{ClaimRequest, Claims, SessionKey, StoreError, StoreResult};
use crate::redis::answer::not_refused;
use crate::redis::failure::{Effect, odd};
use crate::redis::inner::Inner;
use crate::redis::keys;
use crate::redis::queue::LOOK_AGAIN;
use crate::redis::script::Reply;
use tokio::time::Instant;

impl Inner {
    /// Claims the session once it needs an owner, whatever else does.
    pub(super) async fn claim_only(
        &self,
        request: &ClaimRequest,
        key: &SessionKey,
    ) -> StoreResult<Claims> {
        let deadline = Instant::now() + request.wait;
        let mut listener = Listener::new(&self.hub, &request.owner);
        self.hints.serves(&request.owner);
        loop {
            let hinted = listener.take();
            let mut claims = self.try_only(request, key).await?;
            claims.woken = self.woken(&request.owner, hinted).await;
            let nothing = claims.claims.is_empty() && claims.woken.is_empty();
            if !nothing || Instant::now() >= deadline {
                return Ok(claims);
            }
            // Its lease may run out, which nobody tells.
            let until = deadline.min(Instant::now() + LOOK_AGAIN);
            let _ = tokio::time::timeout_at(until, listener.changed()).await;
        }
    }

    async fn try_only(&self, request: &ClaimRequest, key: &SessionKey) -> StoreResult<Claims> {
        let partition = keys::partition(key);
        let found = self.look(request, vec![partition]).await?;
        let mut claims = Claims {
            claims: Vec::new(),
            woken: Vec::new(),
            now_unix_ms: found.now,
        };
        for kind in [Kind::Expired, Kind::Due] {
            if claims.claims.len() == request.max_sessions.min(1) {
                break;
            }
            let candidate = Candidate {
                kind,
                since: 0,
                roll: 0,
                partition,
                member: keys::member(key),
            };
            let outcome = self.take(request, vec![candidate]).await;
            if let Some(error) = outcome.error {
                return Err(error);
            }
            self.tell_strange(&outcome.strange);
            claims.now_unix_ms = self.servers.time.take(outcome.now.max(found.now));
            claims.claims = outcome.claims;
        }
        if claims.claims.is_empty() {
            self.check_not_ended(key).await?;
        }
        Ok(claims)
    }

    /// One that is not there may be made yet, and a newer program may know what this one does not.
    async fn check_not_ended(&self, key: &SessionKey) -> StoreResult<()> {
        let names = self.names.session(key);
        let mut session = redis::cmd("HMGET");
        session.arg(names.hash()).arg(&["f", "del"]);
        let question = (names.partition.number, session);
        let mut answers = Reply::of(self.servers.ask_all([question]).await?);
        let mut all = || {
            let mut session = answers.array()?;
            Ok((session.optional()?, session.optional()?))
        };
        let (format, deleted) = all().map_err(|error| odd(Effect::Reads, error))?;
        match not_refused(self.formats, format, deleted) {
            Err(error @ StoreError::Terminal(_)) => Err(error),
            _ => Ok(()),
        }
    }
}
