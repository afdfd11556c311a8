//! Follows the executors: which there are, and what they report.

use super::{Followed, Shared, State, count};
use crate::dispatch::queue::{MemberId, Reported};
use cairn_engine::pool::ResourceState;
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::executor::{ExecutorState, WatchStatusRequest, WatchStatusResponse};
use cairn_rpc::{Link, Member, RpcError};
use futures::{Stream, StreamExt as _};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

impl Shared {
    fn report(self: &Arc<Self>, id: &MemberId, status: &WatchStatusResponse) {
        let reported = Reported {
            version: status.version,
            slots: status.slots,
            free: status.free_slots,
            level: status.level,
            is_draining: status.state() == ExecutorState::Draining,
        };
        self.change(|state| {
            // The last report of an executor that has just left.
            if !state.followed.contains_key(id) {
                return false;
            }
            let members = &mut state.queue.members;
            let before = members.get(id).map(|member| member.state());
            members.report(id, reported);
            let is_back = before == Some(ResourceState::Error);
            let differs = state.pool.report(id, status.into(), members);
            differs || is_back
        });
        if status.free_slots > 0 {
            count(&self.freed);
        }
    }

    /// An executor does not report.
    fn lose(self: &Arc<Self>, id: &MemberId) {
        self.change(|state| {
            if !state.followed.contains_key(id) {
                return false;
            }
            let members = &mut state.queue.members;
            let is_lost = members.lose(id);
            state.pool.miss(id, members) || is_lost
        });
    }

    /// The link has these processes now.
    fn set_members(self: &Arc<Self>, now: Vec<Member>) {
        self.change(|state| {
            let before = state.followed.len();
            let State {
                queue,
                followed,
                pool,
                ..
            } = state;
            followed.retain(|id, _| {
                let is_member = now.iter().any(|member| *member.address == **id);
                if !is_member {
                    queue.members.remove(id);
                    pool.leave(id, &mut queue.members);
                }
                is_member
            });
            let is_gone = followed.len() < before;
            for Member { address, link } in now {
                let id: MemberId = address.into();
                followed.entry(id.clone()).or_insert_with(|| {
                    queue.members.join(&id);
                    let refresh = Arc::new(Notify::new());
                    let executors = Arc::downgrade(self);
                    let watching = watch(executors, id, link.clone(), refresh.clone());
                    Followed {
                        link,
                        refresh,
                        failures: 0,
                        _watching: AbortOnDropHandle::new(tokio::spawn(watching)),
                    }
                });
            }
            state.has_members = true;
            is_gone
        });
    }
}

/// Watches each executor as long as it is one.
pub(super) async fn follow(executors: Weak<Shared>, members: impl Stream<Item = Vec<Member>>) {
    let mut members = std::pin::pin!(members);
    while let Some(members) = members.next().await {
        let Some(shared) = executors.upgrade() else {
            return;
        };
        shared.set_members(members);
    }
}

/// Takes in what an executor reports, and asks anew when its stream ends or is no longer right.
async fn watch(executors: Weak<Shared>, id: MemberId, link: Link, refresh: Arc<Notify>) {
    loop {
        // None if it reports, and what it has reported is not so.
        let reported = tokio::select! {
            reported = take_reports(&executors, &id, &link) => Some(reported),
            () = refresh.notified() => None,
        };
        let Some(shared) = executors.upgrade() else {
            return;
        };
        if reported.is_some() {
            shared.lose(&id);
        }
        let pause = shared.lock().pause_of(&id);
        drop(shared);
        if let Some(Err(status)) = reported {
            let error = RpcError::from_status(&status);
            tracing::debug!(executor = &*id, %error, "executor does not report");
        }
        tokio::time::sleep(pause).await;
    }
}

async fn take_reports(executors: &Weak<Shared>, id: &MemberId, link: &Link) -> Result<(), Status> {
    let mut executor = ExecutorServiceClient::new(link.clone());
    let reports = executor.watch_status(WatchStatusRequest {}).await?;
    let mut reports = reports.into_inner();
    while let Some(status) = reports.message().await? {
        let Some(executors) = executors.upgrade() else {
            return Ok(());
        };
        executors.report(id, &status);
    }
    Ok(())
}
