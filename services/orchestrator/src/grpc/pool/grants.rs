//! Grants and revocations of tools. Each is a change of the document of its agent or executor. The document is read, and
//! stored with the change if it still has the version that was read.

use super::{check_operator, checks, errors, of_pool, operation_id};
use crate::dispatch::{OF_AGENT, OF_EXECUTOR};
use crate::grpc::Answer;
use crate::requests::Requests;
use crate::store::NEWER_VERSION;
use cairn_engine::key::digest;
use cairn_engine::session::can_be_denied;
use cairn_proto::api as pb;
use cairn_proto::memory as memory_pb;
use cairn_rpc::{RpcError, check_request_id};
use pb::grant_tool_request::To;
use pb::revoke_tool_request::Of;
use prost::Message as _;
use std::collections::BTreeSet;
use tonic::{Request, Response};

/// Most grants and revocations of one agent or executor.
const MOST_TOOLS: usize = 1_000;
/// Changes that a document remembers: as many as the store remembers of all documents of the kind.
const REMEMBERED: usize = 1_000;
/// Bytes by which a document remembers a change.
const MARK: usize = 16;
/// Most tries of a change, if other changes are stored in between.
const MOST_TRIES: u32 = 16;

pub(super) async fn grant(
    requests: &Requests,
    request: Request<pb::GrantToolRequest>,
) -> Answer<pb::GrantToolResponse> {
    check_operator(&request)?;
    let pb::GrantToolRequest {
        request_id,
        tool,
        to,
    } = request.into_inner();
    check_request_id("request_id", &request_id)?;
    checks::tool(&tool)?;
    let subject = match to {
        Some(To::Agent(agent)) => Subject::agent(agent),
        Some(To::Executor(id)) => Subject::executor(id),
        None => Err(no_subject("to")),
    };
    let change = Change {
        request_id,
        tool,
        subject: subject?,
        verb: Verb::Grant,
    };
    change.store(requests).await?;
    Ok(Response::new(pb::GrantToolResponse {}))
}

pub(super) async fn revoke(
    requests: &Requests,
    request: Request<pb::RevokeToolRequest>,
) -> Answer<pb::RevokeToolResponse> {
    check_operator(&request)?;
    let pb::RevokeToolRequest {
        request_id,
        tool,
        of,
    } = request.into_inner();
    check_request_id("request_id", &request_id)?;
    checks::tool(&tool)?;
    if !can_be_denied(&tool) {
        let error = RpcError::invalid("tool", format!("is {tool}, which no model can do without"));
        return Err(error.allowed("a tool that can be revoked").into());
    }
    let subject = match of {
        Some(Of::Agent(agent)) => Subject::agent(agent),
        Some(Of::Executor(id)) => Subject::executor(id),
        None => Err(no_subject("of")),
    };
    let change = Change {
        request_id,
        tool,
        subject: subject?,
        verb: Verb::Revoke,
    };
    change.store(requests).await?;
    Ok(Response::new(pb::RevokeToolResponse {}))
}

/// Neither an agent nor an executor is named.
fn no_subject(field: &str) -> RpcError {
    RpcError::missing(field).allowed("agent or executor")
}

/// The agent or the executor of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    /// The agent of this name.
    Agent(String),
    /// The executor of this id.
    Executor(String),
}

impl Subject {
    fn agent(name: String) -> Result<Self, RpcError> {
        checks::agent(&name)?;
        Ok(Self::Agent(name))
    }

    fn executor(id: String) -> Result<Self, RpcError> {
        checks::executor(&id)?;
        Ok(Self::Executor(id))
    }

    /// The name in the document.
    fn name(&self) -> &str {
        match self {
            Self::Agent(name) | Self::Executor(name) => name,
        }
    }

    /// The id of the document.
    fn document(&self) -> String {
        match self {
            Self::Agent(name) => format!("{OF_AGENT}{name}"),
            Self::Executor(id) => format!("{OF_EXECUTOR}{id}"),
        }
    }

    /// For errors.
    fn words(&self) -> String {
        match self {
            Self::Agent(name) => format!("agent \"{name}\""),
            Self::Executor(id) => format!("executor \"{id}\""),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Grant,
    Revoke,
}

/// A change of what one agent or executor can use.
#[derive(Debug)]
struct Change {
    request_id: String,
    tool: String,
    subject: Subject,
    verb: Verb,
}

impl Change {
    /// Stores it, unless it was stored before.
    async fn store(&self, requests: &Requests) -> Result<(), RpcError> {
        for _ in 0..MOST_TRIES {
            let (found, version) = self.read(requests).await?;
            if self.is_in(&found) {
                return Ok(());
            }
            let put = memory_pb::PutDocumentRequest {
                kind: memory_pb::DocumentKind::Grant.into(),
                id: self.subject.document(),
                value: self.applied_to(found)?.encode_to_vec().into(),
                expected_version: Some(version),
                operation_id: operation_id(&self.request_id),
            };
            let mut documents = requests.store().documents();
            let Err(status) = documents.put_document(of_pool(put)).await else {
                return Ok(());
            };
            let error = RpcError::from_status(&status);
            if error.reason_name() == "DOCUMENT_VERSION" {
                continue;
            }
            // A retry that came at the same time may have stored it.
            let is_used = error.reason_name() == "REQUEST_MISMATCH";
            if is_used && self.is_in(&self.read(requests).await?.0) {
                return Ok(());
            }
            return Err(errors::of_grant(error));
        }
        Err(errors::overtaken(&self.subject.words()))
    }

    /// The document as it is now, and its version; 0 if there is none.
    async fn read(&self, requests: &Requests) -> Result<(memory_pb::GrantDocument, u64), RpcError> {
        let get = memory_pb::GetDocumentRequest {
            kind: memory_pb::DocumentKind::Grant.into(),
            id: self.subject.document(),
        };
        let mut documents = requests.store().documents();
        let got = documents.get_document(of_pool(get)).await?;
        let Some(document) = got.into_inner().document else {
            return Ok((memory_pb::GrantDocument::default(), 0));
        };
        let grants = memory_pb::GrantDocument::decode(document.value).map_err(|_| {
            let subject = self.subject.words();
            let message = format!("the grants of {subject} were stored by another version");
            RpcError::precondition(message).reason(NEWER_VERSION)
        })?;
        Ok((grants, document.version))
    }

    /// What the document remembers it by.
    fn mark(&self) -> Vec<u8> {
        let verb: &[u8] = match self.verb {
            Verb::Grant => b"grant",
            Verb::Revoke => b"revoke",
        };
        let document = self.subject.document();
        let parts = [
            self.request_id.as_bytes(),
            verb,
            document.as_bytes(),
            self.tool.as_bytes(),
        ];
        let digest = digest(&parts);
        digest.iter().copied().take(MARK).collect()
    }

    fn is_in(&self, grants: &memory_pb::GrantDocument) -> bool {
        grants.changes.contains(&self.mark())
    }

    /// # Errors
    /// There would be too many grants and revocations.
    fn applied_to(
        &self,
        grants: memory_pb::GrantDocument,
    ) -> Result<memory_pb::GrantDocument, RpcError> {
        let mut granted: BTreeSet<String> = grants.granted.into_iter().collect();
        let mut revoked: BTreeSet<String> = grants.revoked.into_iter().collect();
        let (to, from) = match self.verb {
            Verb::Grant => (&mut granted, &mut revoked),
            Verb::Revoke => (&mut revoked, &mut granted),
        };
        from.remove(&self.tool);
        to.insert(self.tool.clone());
        if granted.len() + revoked.len() > MOST_TOOLS {
            return Err(errors::too_many_tools(&self.subject.words(), MOST_TOOLS));
        }
        let mut changes = grants.changes;
        changes.push(self.mark());
        let forgotten = changes.len().saturating_sub(REMEMBERED);
        changes.drain(..forgotten);
        Ok(memory_pb::GrantDocument {
            agent: self.subject.name().to_owned(),
            granted: granted.into_iter().collect(),
            revoked: revoked.into_iter().collect(),
            changes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(request_id: &str, verb: Verb, tool: &str) -> Change {
        Change {
            request_id: request_id.to_owned(),
            tool: tool.to_owned(),
            subject: Subject::Agent("reviewer".to_owned()),
            verb,
        }
    }

    fn applied(changes: &[Change]) -> memory_pb::GrantDocument {
        let mut grants = memory_pb::GrantDocument::default();
        for change in changes {
            grants = change.applied_to(grants).expect("applied");
        }
        grants
    }

    #[test]
    fn the_last_change_of_a_tool_counts() {
        let grants = applied(&[
            change("1", Verb::Grant, "web_search"),
            change("2", Verb::Grant, "edit_file"),
            change("3", Verb::Revoke, "web_search"),
            change("4", Verb::Revoke, "shell_exec"),
            change("5", Verb::Grant, "shell_exec"),
        ]);
        assert_eq!(grants.agent, "reviewer");
        assert_eq!(grants.granted, ["edit_file", "shell_exec"]);
        assert_eq!(grants.revoked, ["web_search"]);
    }

    #[test]
    fn a_change_is_known_by_all_of_its_request() {
        let first = change("1", Verb::Grant, "web_search");
        let grants = applied(&[first]);
        assert!(change("1", Verb::Grant, "web_search").is_in(&grants));
        for other in [
            change("2", Verb::Grant, "web_search"),
            change("1", Verb::Revoke, "web_search"),
            change("1", Verb::Grant, "edit_file"),
        ] {
            assert!(!other.is_in(&grants), "{other:?}");
        }
    }

    #[test]
    fn a_document_forgets_old_changes_and_holds_so_many_tools() {
        let mut grants = memory_pb::GrantDocument::default();
        for n in 0..MOST_TOOLS {
            let name = n.to_string();
            grants = change(&name, Verb::Grant, &name)
                .applied_to(grants)
                .expect("applied");
        }
        let more = change("more", Verb::Revoke, "more").applied_to(grants.clone());
        assert_eq!(more.expect_err("full").reason_name(), "LIMIT");
        let again = change("again", Verb::Revoke, "7").applied_to(grants);
        let again = again.expect("no further tool");
        assert_eq!(again.changes.len(), REMEMBERED);
        assert!(!change("0", Verb::Grant, "0").is_in(&again));
        assert!(change("1", Verb::Grant, "1").is_in(&again));
        assert!(
            again.encoded_len() < 256 * 1024,
            "more than a document holds"
        );
    }

    /// The dispatcher reads grants as the public message.
    #[test]
    fn a_document_reads_as_the_grant_of_an_agent() {
        let grants = applied(&[change("1", Verb::Grant, "web_search")]);
        let read = pb::AgentGrant::decode(grants.encode_to_vec().as_slice()).expect("a grant");
        let expected = pb::AgentGrant {
            agent: "reviewer".to_owned(),
            granted: vec!["web_search".to_owned()],
            revoked: Vec::new(),
        };
        assert_eq!(read, expected);
    }
}
