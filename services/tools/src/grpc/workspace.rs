//! Files of the workspace on the wire.

use super::refused as not_allowed;
use crate::workspace_files::{FilesError, Found, Kind, Reading};
use cairn_proto::tools as proto;
use cairn_rpc::{ErrorKind, RpcError};

pub(super) fn reading(reading: Reading) -> proto::ReadWorkspaceFilesResponse {
    let mut contents = reading.contents.into_iter();
    let files = reading.files.into_iter();
    proto::ReadWorkspaceFilesResponse {
        digest: reading.digest,
        confirmed: reading.is_confirmed,
        unchanged: reading.is_unchanged,
        files: files
            .map(|found| file(found, contents.next().unwrap_or_default()))
            .collect(),
        problems: reading.problems,
    }
}

fn file(found: Found, content: Vec<u8>) -> proto::WorkspaceFile {
    let kind = match found.kind {
        Kind::Agent => proto::WorkspaceFileKind::Agent,
        Kind::Skill => proto::WorkspaceFileKind::Skill,
        Kind::Instructions => proto::WorkspaceFileKind::Instructions,
    };
    let others = found.others.into_iter();
    proto::WorkspaceFile {
        path: found.path,
        kind: kind.into(),
        size: found.size,
        digest: found.digest,
        content,
        others: others.map(|member| member.path).collect(),
    }
}

/// Why files are not read or not confirmed.
pub(super) fn refused(error: FilesError) -> RpcError {
    let message = error.to_string();
    match error {
        FilesError::Busy => RpcError::unavailable(message).reason("WORKSPACE_BUSY"),
        FilesError::NotKnown(_) => RpcError::unavailable(message).reason("CONFIRMATIONS_NOT_KNOWN"),
        FilesError::Stopping => RpcError::unavailable(message),
        FilesError::NoFiles => not_found(&message).reason("NO_WORKSPACE_FILES"),
        FilesError::Changed { digest } => RpcError::conflict(message)
            .reason("WORKSPACE_CHANGED")
            .meta("digest", digest),
        FilesError::NotKept(error) => not_allowed(error),
        FilesError::Path(problem) => RpcError::invalid("file", problem)
            .allowed("a path from the folder of the skill, such as scripts/count.py"),
        FilesError::NoSkill { .. } => not_found(&message).reason("NO_SKILL"),
        FilesError::NoSkillFile { .. } => not_found(&message).reason("NO_SKILL_FILE"),
        FilesError::SkillChanged(_) => RpcError::precondition(message).reason("SKILL_CHANGED"),
    }
}

fn not_found(message: &str) -> RpcError {
    RpcError::new(ErrorKind::NotFound, message)
}
