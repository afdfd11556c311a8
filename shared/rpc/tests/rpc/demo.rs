//! A service for these tests, written by hand as the generators would: `Echo` is unary, `Chat` a
//! bidirectional stream. The text of a message says what is to happen.

use cairn_rpc::{MAX_MESSAGE_BYTES, Peer, Principal, RpcError, Unsent, deadline, principal};
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use http::uri::PathAndQuery;
use prost::Message;
use prost_types::{
    DescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    ServiceDescriptorProto,
};
use std::convert::Infallible;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

pub(crate) const NAME: &str = "cairn.test.v1.DemoService";
pub(crate) const ECHO: &str = "/cairn.test.v1.DemoService/Echo";
pub(crate) const CHAT: &str = "/cairn.test.v1.DemoService/Chat";

pub(crate) static DESCRIPTORS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let method = |name: &str, streaming| MethodDescriptorProto {
        name: Some(name.to_owned()),
        input_type: Some(".cairn.test.v1.Text".to_owned()),
        output_type: Some(".cairn.test.v1.Text".to_owned()),
        client_streaming: Some(streaming),
        server_streaming: Some(streaming),
        ..Default::default()
    };
    let service = |name: &str| ServiceDescriptorProto {
        name: Some(name.to_owned()),
        method: vec![method("Echo", false), method("Chat", true)],
        ..Default::default()
    };
    let message = |name: &str| DescriptorProto {
        name: Some(name.to_owned()),
        ..Default::default()
    };
    let file = |name: &str, package: &str| FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some(package.to_owned()),
        ..Default::default()
    };
    let imported = FileDescriptorProto {
        message_type: vec![message("Text")],
        ..file("cairn/test/v1/text.proto", "cairn.test.v1")
    };
    let demo = FileDescriptorProto {
        dependency: vec!["cairn/test/v1/text.proto".to_owned()],
        service: vec![service("DemoService"), service("NotRegisteredService")],
        ..file("cairn/test/v1/demo.proto", "cairn.test.v1")
    };
    let other = FileDescriptorProto {
        message_type: vec![message("Other")],
        service: vec![service("OtherService")],
        ..file("cairn/other/v1/other.proto", "cairn.other.v1")
    };
    let file = vec![imported, demo, other];
    FileDescriptorSet { file }.encode_to_vec()
});

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Text {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
}

pub(crate) fn text(text: impl Into<String>) -> Text {
    Text { text: text.into() }
}

/// Tells the test when something has ended on the server's side.
struct Notice(mpsc::UnboundedSender<&'static str>, &'static str);

impl Drop for Notice {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

#[derive(Clone)]
pub(crate) struct Demo {
    notices: mpsc::UnboundedSender<&'static str>,
    /// What the connection of the newest chat has not taken.
    pub(crate) unsent: Arc<Mutex<Unsent>>,
}

impl NamedService for Demo {
    const NAME: &'static str = NAME;
}

impl Service<http::Request<Body>> for Demo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let demo = self.clone();
        let mut grpc = Grpc::new(ProstCodec::<Text, Text>::default())
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        match request.uri().path() {
            ECHO => Box::pin(async move {
                let method = service_fn(move |request| demo.clone().echo(request));
                Ok(grpc.unary(method, request).await)
            }),
            CHAT => Box::pin(async move {
                let method = service_fn(move |request| demo.clone().chat(request));
                Ok(grpc.streaming(method, request).await)
            }),
            _ => Box::pin(async { Ok(Status::unimplemented("").into_http()) }),
        }
    }
}

impl Demo {
    pub(crate) fn new(notices: mpsc::UnboundedSender<&'static str>) -> Self {
        let unsent = Arc::default();
        Self { notices, unsent }
    }

    async fn echo(self, request: Request<Text>) -> Result<Response<Text>, Status> {
        let answer = match request.get_ref().text.as_str() {
            "whoami" => {
                let headers = [cairn_rpc::NAMESPACE_HEADER, cairn_rpc::PRINCIPAL_HEADER];
                let seen = headers.map(|header| request.metadata().contains_key(header));
                let (by, headers) = (principal(&request)?, seen.iter().filter(|it| **it).count());
                let (how, subject) = (by.authentication(), by.subject());
                format!("{how:?} {subject} in {}, {headers} headers", by.namespace())
            }
            "authorization" => format!("{:?}", request.metadata().get("authorization")),
            "peer" => format!("{:?}", request.extensions().get::<Peer>()),
            "deadline" => remaining(&request),
            "panic" => panic!("no secrets here"),
            "fail" => Err(refusal())?,
            "hang" => {
                let _ = self.notices.send("hang begun");
                let _notice = Notice(self.notices, "hang over");
                std::future::pending().await
            }
            other => other.to_owned(),
        };
        Ok(Response::new(text(answer)))
    }

    async fn chat(
        self,
        request: Request<Streaming<Text>>,
    ) -> Result<Response<impl Stream<Item = Result<Text, Status>>>, Status> {
        let left = remaining(&request);
        let unsent = Unsent::default();
        self.unsent.lock().unwrap().clone_from(&unsent);
        let notice = Notice(self.notices, "chat over");
        let talk = stream::unfold(
            (request.into_inner(), notice, left),
            async |(mut incoming, notice, left)| {
                let said = match incoming.next().await? {
                    Ok(said) => said.text,
                    Err(status) => return Some((Err(status), (incoming, notice, left))),
                };
                let answer = match said.as_str() {
                    "end" => return None,
                    "panic" => panic!("in the body"),
                    "fail" => Err(refusal().into()),
                    "deadline" => Ok(text(&left)),
                    other => Ok(text(other)),
                };
                Some((answer, (incoming, notice, left)))
            },
        );
        let mut response = Response::new(talk);
        response.extensions_mut().insert(unsent);
        Ok(response)
    }
}

fn remaining<T>(request: &Request<T>) -> String {
    match deadline(request) {
        Some(deadline) => format!("{}", deadline.remaining() <= Duration::from_secs(60)),
        None => "none".to_owned(),
    }
}

pub(crate) fn refusal() -> RpcError {
    RpcError::invalid("text", "is \"fail\"")
        .allowed("any other text")
        .reason("DEMO_REFUSED")
        .retry_after(Duration::from_secs(2))
        .meta("colour", "red")
}

pub(crate) struct Client<T>(tonic::client::Grpc<T>);

impl Client<cairn_rpc::Link> {
    pub(crate) fn new(link: cairn_rpc::Link) -> Self {
        Self(tonic::client::Grpc::new(link))
    }

    pub(crate) async fn echo(&mut self, said: &str) -> Result<String, Status> {
        self.call(ECHO, Request::new(text(said))).await
    }

    pub(crate) async fn call(
        &mut self,
        path: &str,
        request: Request<Text>,
    ) -> Result<String, Status> {
        self.0.ready().await?;
        let path: PathAndQuery = path.parse().unwrap();
        let codec = ProstCodec::<Text, Text>::default();
        let answer = self.0.unary(request, path, codec).await?;
        Ok(answer.into_inner().text)
    }

    pub(crate) async fn chat(&mut self) -> Result<(mpsc::Sender<Text>, Streaming<Text>), Status> {
        self.chat_with(|_| ()).await
    }

    pub(crate) async fn chat_with(
        &mut self,
        prepare: impl FnOnce(&mut Request<tokio_stream::wrappers::ReceiverStream<Text>>),
    ) -> Result<(mpsc::Sender<Text>, Streaming<Text>), Status> {
        let (say, said) = mpsc::channel(8);
        let mut request = Request::new(tokio_stream::wrappers::ReceiverStream::new(said));
        prepare(&mut request);
        self.0.ready().await?;
        let codec = ProstCodec::<Text, Text>::default();
        let path = PathAndQuery::from_static(CHAT);
        let received = self.0.streaming(request, path, codec).await?;
        Ok((say, received.into_inner()))
    }
}

/// What a client in this process could try to smuggle in.
pub(crate) fn forged() -> Principal {
    Principal::service("forged", "forged".parse().unwrap())
}
