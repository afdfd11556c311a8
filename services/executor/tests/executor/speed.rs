use crate::bench::executor;
use crate::owner::*;
use cairn_executor::Config;
use cairn_model::ModelRegistry;
use cairn_proto::event::Effect;
use cairn_proto::executor::AttemptStart;
use cairn_proto::tools::tools_service_server::*;
use cairn_proto::tools::*;
use cairn_rpc::*;
use tonic::{Request, Response, Status};
struct T;
#[tonic::async_trait]
impl ToolsService for T {
    async fn list_tools(&self, _: Request<ListToolsRequest>) -> Result<Response<ListToolsResponse>, Status> {
        Err(Status::unimplemented(""))
    }
    async fn invoke_tool(&self, _: Request<InvokeToolRequest>) -> Result<Response<InvokeToolResponse>, Status> {
        Ok(Response::new(InvokeToolResponse { output: "x".into(), ..Default::default() }))
    }
}
#[tokio::test]
async fn speed() {
    let s = ServerBuilder::new(Exposure::Internal).register(ToolsServiceServer::new(T), cairn_proto::DESCRIPTORS).build().await.unwrap();
    let client = executor(Config::default(), ModelRegistry::new(), s.link()).await;
    let go = async || {
        let start = AttemptStart { session: "s-1".into(), attempt: Some(attempt()), tool_step: Some(permit(call_ref(0, 0), "send", "{}", Effect::Effectful)), ..Default::default() };
        let mut o = Owner::open(&client, start).await.unwrap();
        let _ = o.reports.message().await.unwrap();
        o.end(1).await;
    };
    for _ in 0..1000 { go().await; }
    let t = std::time::Instant::now();
    for _ in 0..5000 { go().await; }
    eprintln!("tool step: {:?}", t.elapsed() / 5000);
    let mut tools = ToolsServiceClient(s.link());
    let t = std::time::Instant::now();
    for _ in 0..5000 { tools.call().await; }
    eprintln!("invoke alone: {:?}", t.elapsed() / 5000);
}
struct ToolsServiceClient(Link);
impl ToolsServiceClient {
    async fn call(&mut self) {
        let mut c = cairn_proto::tools::tools_service_client::ToolsServiceClient::new(self.0.clone());
        let mut r = with_namespace(Request::new(InvokeToolRequest::default()), &namespace());
        r.set_timeout(std::time::Duration::from_secs(3600));
        c.invoke_tool(r).await.unwrap();
    }
}
