//! Calls with any bytes as the request.

use prost::bytes::{Buf as _, BufMut as _, Bytes};
use prost_reflect::MethodDescriptor;
use std::time::Duration;
use tokio::time::timeout;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

/// No answer may take longer.
const LIMIT: Duration = Duration::from_secs(20);
/// A stream that has been accepted may have nothing to say.
const QUIET: Duration = Duration::from_millis(30);

/// What came back.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A message, or nothing at the end of a stream.
    Message(Option<Bytes>),
    /// The stream was accepted and waits for something to happen.
    Open,
    /// An error.
    Refused(Status),
    /// Nothing in time.
    Late,
}

/// Leaves bytes as they are.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Sends a request to a method in the namespace `default`, and waits for the first message.
pub(crate) async fn call(
    link: &cairn_rpc::Link,
    method: &MethodDescriptor,
    bytes: Vec<u8>,
) -> Answer {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let path = PathAndQuery::try_from(path).expect("a path");
    let mut grpc = tonic::client::Grpc::new(link.clone()).max_decoding_message_size(64 << 20);
    grpc.ready().await.expect("a link is always ready");
    let messages = futures::stream::iter([Bytes::from(bytes)]);
    let request =
        cairn_rpc::with_principal(Request::new(messages), &cairn_rpc::Principal::process());
    let mut stream = match timeout(LIMIT, grpc.streaming(request, path, Raw)).await {
        Err(_) => return Answer::Late,
        Ok(Err(status)) => return Answer::Refused(status),
        Ok(Ok(response)) => response.into_inner(),
    };
    let patience = if method.is_server_streaming() {
        QUIET
    } else {
        LIMIT
    };
    match timeout(patience, stream.message()).await {
        Ok(Ok(message)) => Answer::Message(message),
        Ok(Err(status)) => Answer::Refused(status),
        Err(_) if method.is_server_streaming() => Answer::Open,
        Err(_) => Answer::Late,
    }
}
