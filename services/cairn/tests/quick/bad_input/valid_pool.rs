//! Valid requests of the service for the pool.

use cairn_proto::api as pb;
use prost::Message;
use std::collections::BTreeMap;

/// As [`super::valid::public`], for a resource that is registered first.
pub(crate) fn pool(method: &str, n: usize, session: String) -> Vec<Vec<u8>> {
    let request_id = format!("{method}-{n}");
    let tool = "edit_file".to_owned();
    let (agent, executor) = ("reviewer".to_owned(), "general".to_owned());
    match method {
        "PutResource" => vec![
            pb::PutResourceRequest {
                request_id,
                id: "gpu-1".to_owned(),
                kind: "gpu".to_owned(),
                capabilities: vec![pb::ResourceCapability {
                    name: "gpu".to_owned(),
                    level: 5,
                }],
                labels: BTreeMap::from([("rack".to_owned(), "7".to_owned())]),
                slots: 2,
                expected_version: None,
            }
            .encode_to_vec(),
        ],
        "RemoveResource" => vec![
            pb::RemoveResourceRequest {
                request_id,
                id: "gpu-1".to_owned(),
                expected_version: None,
            }
            .encode_to_vec(),
        ],
        "GrantTool" => {
            use pb::grant_tool_request::To;
            let grants =
                [To::Agent(agent), To::Executor(executor)].map(|to| pb::GrantToolRequest {
                    request_id: request_id.clone(),
                    tool: tool.clone(),
                    to: Some(to),
                });
            encoded(&grants)
        }
        "RevokeTool" => {
            use pb::revoke_tool_request::Of;
            let revocations =
                [Of::Agent(agent), Of::Executor(executor)].map(|of| pb::RevokeToolRequest {
                    request_id: request_id.clone(),
                    tool: tool.clone(),
                    of: Some(of),
                });
            encoded(&revocations)
        }
        "GetPool" | "WatchPool" => vec![Vec::new()],
        "GetAgentContext" => vec![
            pb::GetAgentContextRequest {
                session,
                run: 1,
                step: 0,
            }
            .encode_to_vec(),
        ],
        _ => Vec::new(),
    }
}

fn encoded(requests: &[impl Message]) -> Vec<Vec<u8>> {
    requests.iter().map(Message::encode_to_vec).collect()
}
