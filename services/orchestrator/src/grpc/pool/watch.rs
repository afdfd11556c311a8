//! The pool as it changes.

use super::present;
use crate::grpc::bounded::respond;
use crate::requests::Requests;
use cairn_proto::api as pb;
use cairn_rpc::RpcError;
use futures::stream::{self, BoxStream, StreamExt as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Receiver;
use tokio::time::sleep;
use tonic::{Response, Status};

/// The least time between two messages. Attempts begin and end all the time.
const PAUSE: Duration = Duration::from_millis(100);
/// When a client may watch again after this server has stopped.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(super) type Pools = BoxStream<'static, Result<pb::WatchPoolResponse, Status>>;

/// Sends the pool as it is now, and anew after changes, until this process begins to drain.
pub(super) fn watch(requests: &Arc<Requests>, is_operator: bool) -> Response<Pools> {
    let watcher = Watcher {
        changes: requests.deps().dispatch.pool_changes(),
        requests: Arc::clone(requests),
        is_operator,
        is_first: true,
    };
    let messages = stream::unfold(Some(watcher), |watcher| async {
        let mut watcher = watcher?;
        match watcher.next().await {
            Ok(message) => Some((Ok(message), Some(watcher))),
            Err(error) => Some((Err(error.into()), None)),
        }
    });
    respond(requests.readers.share(), messages.boxed(), 0, |_| 0)
}

struct Watcher {
    changes: Receiver<u64>,
    requests: Arc<Requests>,
    is_operator: bool,
    is_first: bool,
}

impl Watcher {
    /// The pool at once, and later once it has changed.
    async fn next(&mut self) -> Result<pb::WatchPoolResponse, RpcError> {
        let draining = self.requests.sessions.draining.clone();
        let is_first = std::mem::take(&mut self.is_first);
        let due = async {
            if is_first {
                self.requests.deps().dispatch.known().await;
                return Ok(());
            }
            sleep(PAUSE).await;
            self.changes.changed().await
        };
        tokio::select! {
            biased;
            () = draining.cancelled() => return Err(stops()),
            due = due => due.map_err(|_| stops())?,
        }
        // Before the pool is read: a change in between is seen the next time.
        self.changes.mark_unchanged();
        let pool = self.requests.deps().dispatch.pool();
        Ok(pb::WatchPoolResponse {
            pool: Some(present::pool(&pool, self.is_operator)),
        })
    }
}

fn stops() -> RpcError {
    RpcError::unavailable("this server stops; watch the pool again").retry_after(RETRY_AFTER)
}
