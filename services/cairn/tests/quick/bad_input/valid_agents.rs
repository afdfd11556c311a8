//! Valid requests of the service for agents.

use cairn_proto::api as pb;
use prost::Message;

/// As [`super::valid::public`], for an agent that is stored first.
pub(crate) fn agents(method: &str, n: usize) -> Vec<Vec<u8>> {
    let request_id = format!("{method}-{n}");
    let name = "reviewer".to_owned();
    let bytes = match method {
        "PutAgent" => pb::PutAgentRequest {
            request_id,
            name: Some(name),
            source: "---\nname: critic\ntools: Read\n---\nReview.\n".to_owned(),
            expected_version: None,
        }
        .encode_to_vec(),
        "GetAgent" => pb::GetAgentRequest { name }.encode_to_vec(),
        "ListAgents" => pb::ListAgentsRequest {
            page_size: 1,
            page_token: String::new(),
        }
        .encode_to_vec(),
        "DeleteAgent" => pb::DeleteAgentRequest {
            request_id,
            name,
            expected_version: None,
        }
        .encode_to_vec(),
        "ListWorkspaceFiles" => pb::ListWorkspaceFilesRequest {}.encode_to_vec(),
        "ConfirmWorkspaceFiles" => pb::ConfirmWorkspaceFilesRequest {
            request_id,
            digest: "0".repeat(64),
        }
        .encode_to_vec(),
        "ListPrompts" => pb::ListPromptsRequest {
            page_size: 1,
            page_token: String::new(),
        }
        .encode_to_vec(),
        "RenderPrompt" => pb::RenderPromptRequest {
            name: "plan_repair".to_owned(),
            variables: [("problem".to_owned(), "x".to_owned())].into(),
        }
        .encode_to_vec(),
        _ => return Vec::new(),
    };
    vec![bytes]
}
