//! Reflection on the public listener describes what clients may call, and nothing of the services inside.

use crate::support::{node, parts};
use cairn_model::ModelRegistry;
use cairn_rpc::Link;
use prost_reflect::DescriptorPool;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

/// What clients call.
const PUBLIC: [&str; 7] = [
    "cairn.api.v1.AgentService",
    "cairn.api.v1.HookService",
    "cairn.api.v1.KnowledgeService",
    "cairn.api.v1.PoolService",
    "cairn.memory.v1.SessionMemoryService",
    "cairn.orchestrator.v1.ContextService",
    "cairn.orchestrator.v1.OrchestratorService",
];

async fn ask(link: &Link, question: MessageRequest) -> Result<(), Status> {
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(question),
    };
    let mut client = ServerReflectionClient::new(link.clone());
    let answers = client.server_reflection_info(tokio_stream::iter([question]));
    let answer = answers.await?.into_inner().next().await;
    answer.expect("an answer").map(drop)
}

#[tokio::test]
async fn the_public_listener_describes_public_services_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(parts(folder.path(), ModelRegistry::new())).await;
    let link = node.public().link();
    let pool = DescriptorPool::decode(cairn_proto::DESCRIPTORS).expect("descriptors");
    let mut inside = 0;
    for service in pool.services() {
        let is_public = PUBLIC.contains(&service.full_name());
        let file = service.parent_file();
        let mut questions = vec![
            MessageRequest::FileContainingSymbol(service.full_name().to_owned()),
            MessageRequest::FileByFilename(file.name().to_owned()),
        ];
        for method in service.methods() {
            let (input, output) = (method.input(), method.output());
            let names = [method.full_name(), input.full_name(), output.full_name()];
            let names = names.map(str::to_owned);
            questions.extend(names.map(MessageRequest::FileContainingSymbol));
        }
        for question in questions {
            let answer = ask(&link, question.clone()).await;
            let code = answer.err().map(|status| status.code());
            let wanted = (!is_public).then_some(Code::NotFound);
            assert_eq!(code, wanted, "{question:?}");
        }
        inside += usize::from(!is_public);
    }
    assert!(inside >= 5, "there are no services inside");
}
