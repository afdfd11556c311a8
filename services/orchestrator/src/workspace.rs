//! The files of the workspace that define agents and skills, as the tools service reads them.

use crate::store::{for_namespace, within};
use cairn_agents::resolve::{File, FileKind, Workspace, workspace};
use cairn_agents::{agent, document};
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{
    ReadWorkspaceFilesRequest, ReadWorkspaceFilesResponse, WorkspaceFile, WorkspaceFileKind,
};
use cairn_rpc::{ErrorKind, Link, Namespace, RpcError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// All files together have at most 16 MiB.
const MAX_ANSWER: usize = 20 * 1024 * 1024;
/// How long a command waits for the files that define its agent.
pub(crate) const FOR_COMMAND: Duration = Duration::from_secs(2);
/// How long a client waits that looks at a run.
pub(crate) const FOR_VIEW: Duration = Duration::from_secs(1);
/// How often the tools service is asked in that time, at equal distances.
const TRIES: u32 = 3;

/// The files as this process has read them last.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceFiles {
    last: Mutex<Option<Reading>>,
}

/// What the files say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// Covers all files; empty if there is none.
    pub(crate) digest: String,
    /// What they define, if a person has confirmed them.
    pub(crate) workspace: Option<Arc<Workspace>>,
    /// Names of agents that files define which are not confirmed, by their paths.
    pub(crate) unconfirmed: BTreeSet<String>,
    /// They could not be read, now or before.
    pub(crate) is_unknown: bool,
}

impl WorkspaceFiles {
    /// The files as they are now. If the tools service gives no answer in that time, as this process has read
    /// them last.
    pub(crate) async fn read(
        &self,
        tools: &ToolsServiceClient<Link>,
        namespace: &Namespace,
        time: Duration,
    ) -> Reading {
        let last = self.last();
        let now = tried(time, |left| read(tools, namespace, last.as_ref(), left)).await;
        if let Some(reading) = now {
            *self.lock() = Some(reading.clone());
            return reading;
        }
        last.unwrap_or_else(|| Reading {
            is_unknown: true,
            ..Reading::default()
        })
    }

    fn last(&self) -> Option<Reading> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reading>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads until that works, but no longer than this. A service that refuses at once, as one does that starts, is
/// asked over the whole time. None if it gives nothing.
async fn tried<T, F>(time: Duration, mut read: impl FnMut(Duration) -> F) -> Option<T>
where
    F: Future<Output = Result<T, RpcError>>,
{
    let (mut next, until) = (Instant::now(), Instant::now() + time);
    for number in 1..=TRIES {
        match read(until.saturating_duration_since(Instant::now())).await {
            Ok(read) => return Some(read),
            // An earlier release does not read such files.
            Err(error) if error.kind() == ErrorKind::Unimplemented => return None,
            Err(error) => {
                tracing::warn!(%error, number, "files of the workspace cannot be read");
            }
        }
        next += time / TRIES;
        if number == TRIES || Instant::now() >= until {
            break;
        }
        sleep_until(next).await;
    }
    None
}

async fn read(
    tools: &ToolsServiceClient<Link>,
    namespace: &Namespace,
    last: Option<&Reading>,
    time: Duration,
) -> Result<Reading, RpcError> {
    let known = last.filter(|last| last.workspace.is_some());
    let known_digest = known.map(|last| last.digest.clone()).unwrap_or_default();
    let files = read_files(tools, namespace, known_digest, time).await?;
    match known.filter(|last| files.unchanged && files.confirmed && last.digest == files.digest) {
        Some(last) => Ok(last.clone()),
        None => Ok(reading(files)),
    }
}

/// The files as the tools service has them; without their contents if they have this digest. Waits so long for
/// them.
pub(crate) async fn read_files(
    tools: &ToolsServiceClient<Link>,
    namespace: &Namespace,
    known_digest: String,
    time: Duration,
) -> Result<ReadWorkspaceFilesResponse, RpcError> {
    let request = for_namespace(namespace, ReadWorkspaceFilesRequest { known_digest });
    let mut tools = tools.clone().max_decoding_message_size(MAX_ANSWER);
    let read = tools.read_workspace_files(within(time, request)).await?;
    Ok(read.into_inner())
}

fn reading(files: ReadWorkspaceFilesResponse) -> Reading {
    let is_confirmed = files.confirmed && !files.digest.is_empty();
    let workspace = is_confirmed.then(|| {
        let files: Vec<File> = files.files.iter().filter_map(file).collect();
        Arc::new(workspace(&files))
    });
    let agents = files.files.iter().filter(|_| !is_confirmed);
    let agents = agents.filter(|file| file.kind() == WorkspaceFileKind::Agent);
    Reading {
        unconfirmed: agents.filter_map(|file| name_of_path(&file.path)).collect(),
        digest: files.digest,
        workspace,
        is_unknown: false,
    }
}

/// What is wrong with files, in lines for a person. Before they are confirmed, only their paths are looked at.
pub(crate) fn problems(files: &ReadWorkspaceFilesResponse) -> Vec<String> {
    if files.confirmed {
        let read: Vec<File> = files.files.iter().filter_map(file).collect();
        return workspace(&read).problems;
    }
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    let agents = files.files.iter();
    let agents = agents.filter(|file| file.kind() == WorkspaceFileKind::Agent);
    let mut problems = Vec::new();
    for file in agents {
        let Some(name) = name_of_path(&file.path) else {
            continue;
        };
        match first.get(&name) {
            Some(first) => problems.push(format!(
                "{}: is agent {name} by its path, as {first} is, which counts unless one of them has another name",
                file.path
            )),
            None => {
                first.insert(name, &file.path);
            }
        }
    }
    problems
}

/// A file of which only the tools service has seen the bytes until now; none if it is no text, which the log
/// has.
fn file(file: &WorkspaceFile) -> Option<File> {
    let kind = match file.kind() {
        WorkspaceFileKind::Agent => FileKind::Agent,
        WorkspaceFileKind::Skill => FileKind::Skill,
        WorkspaceFileKind::Instructions => FileKind::Instructions,
        // A newer tools service has it.
        WorkspaceFileKind::Unspecified => return None,
    };
    match document::decode(&file.path, &file.content) {
        Ok(text) => Some(File {
            path: file.path.clone(),
            kind,
            text: text.to_owned(),
            digest: file.digest.clone(),
        }),
        Err(error) => {
            tracing::warn!(%error, "a file of the workspace is no text");
            None
        }
    }
}

/// The name that a path gives an agent, whatever the file says.
pub(crate) fn name_of_path(path: &str) -> Option<String> {
    agent::parse(path, "").ok().map(|parsed| parsed.value.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(path: &str, content: &str) -> WorkspaceFile {
        WorkspaceFile {
            path: path.to_owned(),
            kind: WorkspaceFileKind::Agent.into(),
            content: content.to_owned().into(),
            ..WorkspaceFile::default()
        }
    }

    /// The times of the tries, in milliseconds, and what they give.
    async fn tries(answers: &[Result<u32, ErrorKind>]) -> (Vec<u128>, Option<u32>) {
        let (began, times) = (Instant::now(), Mutex::new(Vec::new()));
        let mut answers = answers.iter();
        let read = tried(FOR_COMMAND, |_| {
            times.lock().unwrap().push(began.elapsed().as_millis());
            let answer = *answers.next().expect("a further try");
            let answer = answer.map_err(|kind| RpcError::new(kind, "no"));
            async move { answer }
        });
        let read = read.await;
        (times.into_inner().unwrap(), read)
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_refuses_at_once_is_asked_over_the_whole_time() {
        let away = Err(ErrorKind::Unavailable);
        let (times, read) = tries(&[away, away, Ok(7)]).await;
        assert_eq!(read, Some(7));
        assert_eq!(times.len(), 3);
        assert!(times[0] == 0 && times[2] >= 1_300, "{times:?}");
        assert!(times[2] < FOR_COMMAND.as_millis(), "{times:?}");
        assert_eq!(tries(&[away, away, away]).await.1, None);
        let older = Err(ErrorKind::Unimplemented);
        assert_eq!(tries(&[older]).await, (vec![0], None));
    }

    #[test]
    fn files_count_once_they_are_confirmed() {
        let files = |confirmed, content: &str| ReadWorkspaceFilesResponse {
            digest: "d".to_owned(),
            confirmed,
            files: vec![agent(".cairn/agents/critic.agent.md", content)],
            ..ReadWorkspaceFilesResponse::default()
        };
        let read = reading(files(false, ""));
        assert!(read.workspace.is_none());
        assert_eq!(read.unconfirmed, BTreeSet::from(["critic".to_owned()]));
        // Contents that came all the same.
        assert!(reading(files(false, "P")).workspace.is_none());
        let read = reading(files(true, "---\nname: judge\n---\nP"));
        let workspace = read.workspace.expect("a workspace");
        assert_eq!(workspace.agents["judge"].prompt, "P");
        assert!(read.unconfirmed.is_empty());
    }
}
