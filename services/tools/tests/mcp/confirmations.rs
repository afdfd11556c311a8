//! Confirmed files of the workspace are with memory: all tools processes hold them, and follow each change.

use crate::fixture::{folder, service};
use crate::memory::Memory;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{
    ConfirmWorkspaceFilesRequest, ReadWorkspaceFilesRequest, ReadWorkspaceFilesResponse,
};
use cairn_rpc::{Exposure, Link, RpcError, ServerBuilder};
use cairn_tools::Allowances;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A tools process over the workspace of the folder.
struct Process(ToolsServiceClient<Link>);

impl Process {
    async fn start(folder: &TempDir, memory: &Memory) -> Self {
        let allowances = Allowances::with_memory(memory.link());
        let tools = service(folder, |_, deps| deps.allowances = allowances);
        let server = tools.register(ServerBuilder::new(Exposure::Internal));
        Self(ToolsServiceClient::new(
            server.build().await.unwrap().link(),
        ))
    }

    async fn read(&self) -> Result<ReadWorkspaceFilesResponse, RpcError> {
        let request = ReadWorkspaceFilesRequest::default();
        let read = self.0.clone().read_workspace_files(request).await;
        Ok(read?.into_inner())
    }

    async fn confirm(&self, digest: &str) -> Result<(), RpcError> {
        let digest = digest.to_owned();
        let request = ConfirmWorkspaceFilesRequest { digest };
        self.0.clone().confirm_workspace_files(request).await?;
        Ok(())
    }

    /// The first reading of which that holds, which is to come soon.
    async fn until(&self, holds: impl Fn(&Result<ReadWorkspaceFilesResponse, RpcError>) -> bool) {
        let began = Instant::now();
        loop {
            let read = self.read().await;
            if holds(&read) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{read:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn is_confirmed(&self, is_confirmed: bool) {
        self.until(|read| read.as_ref().is_ok_and(|it| it.confirmed == is_confirmed))
            .await;
    }
}

fn workspace() -> std::sync::Arc<TempDir> {
    let folder = folder();
    std::fs::create_dir_all(folder.path().join("ws")).unwrap();
    std::fs::write(folder.path().join("ws/AGENTS.md"), "Use tabs.").unwrap();
    folder
}

#[tokio::test]
async fn what_one_process_confirms_another_has_within_a_second() {
    let (folder, memory) = (workspace(), Memory::start().await);
    let one = Process::start(&folder, &memory).await;
    let other = Process::start(&folder, &memory).await;
    one.is_confirmed(false).await;
    other.is_confirmed(false).await;
    let digest = one.read().await.unwrap().digest;
    let began = Instant::now();
    one.confirm(&digest).await.unwrap();
    assert!(one.read().await.unwrap().confirmed, "once it is stored");
    other.is_confirmed(true).await;
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(memory.ids("workspace:").len(), 1);
    // Both may end: it is in memory.
    drop((one, other));
    let later = Process::start(&folder, &memory).await;
    later.is_confirmed(true).await;
    let read = later.read().await.unwrap();
    assert_eq!(read.files[0].content, b"Use tabs.");
}

#[tokio::test]
async fn before_memory_lists_confirmations_no_content_is_read() {
    let (folder, memory) = (workspace(), Memory::start().await);
    memory.set_away(true);
    let process = Process::start(&folder, &memory).await;
    let error = process.read().await.unwrap_err();
    assert_eq!(error.reason_name(), "CONFIRMATIONS_NOT_KNOWN");
    memory.set_away(false);
    process.is_confirmed(false).await;
    memory.set_away(true);
    let digest = process.read().await.unwrap().digest;
    let error = process.confirm(&digest).await.unwrap_err();
    assert_eq!(error.reason_name(), "ALLOWANCE_NOT_STORED");
    assert!(!process.read().await.unwrap().confirmed);
}

/// As servers of Redis may do.
#[tokio::test]
async fn a_failover_that_loses_a_confirmation_takes_it_back() {
    let (folder, memory) = (workspace(), Memory::start().await);
    let process = Process::start(&folder, &memory).await;
    process.is_confirmed(false).await;
    let digest = process.read().await.unwrap().digest;
    process.confirm(&digest).await.unwrap();
    process.is_confirmed(true).await;
    memory.lose_last();
    process.is_confirmed(false).await;
}
