//! The store's time, asked of the memory service.

use crate::gate::{BoxError, StoreTime};
use async_trait::async_trait;
use cairn_proto::memory::GetTimeRequest;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_rpc::{Link, RpcError};

/// Asks the memory service for the store's time.
#[derive(Debug, Clone)]
pub struct MemoryTime {
    journal: JournalServiceClient<Link>,
}

impl MemoryTime {
    /// `memory` leads to the memory service.
    pub fn new(memory: Link) -> Self {
        Self {
            journal: JournalServiceClient::new(memory),
        }
    }
}

#[async_trait]
impl StoreTime for MemoryTime {
    async fn read(&self) -> Result<u64, BoxError> {
        let response = self.journal.clone().get_time(GetTimeRequest {}).await;
        let response = response.map_err(RpcError::from)?;
        let millis = response.into_inner().store_time_unix_ms;
        u64::try_from(millis)
            .ok()
            .filter(|millis| *millis > 0)
            .ok_or_else(|| format!("the memory service gives {millis} as the store's time").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::memory::GetTimeResponse;
    use cairn_rpc::{Exposure, ServerBuilder};
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tonic::body::Body;
    use tonic::codegen::{Service, http};
    use tonic::server::{Grpc, NamedService, UnaryService};
    use tonic_prost::ProstCodec;

    /// The one method that is needed of the journal service.
    #[derive(Clone, Copy)]
    struct Journal(i64);

    impl NamedService for Journal {
        const NAME: &'static str = "cairn.memory.v1.JournalService";
    }

    impl UnaryService<GetTimeRequest> for Journal {
        type Response = GetTimeResponse;
        type Future = Ready<Result<tonic::Response<GetTimeResponse>, tonic::Status>>;

        fn call(&mut self, _request: tonic::Request<GetTimeRequest>) -> Self::Future {
            let store_time_unix_ms = self.0;
            ready(Ok(tonic::Response::new(GetTimeResponse {
                store_time_unix_ms,
            })))
        }
    }

    impl Service<http::Request<Body>> for Journal {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

        fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            assert_eq!(
                request.uri().path(),
                "/cairn.memory.v1.JournalService/GetTime"
            );
            let journal = *self;
            Box::pin(async move {
                let codec = ProstCodec::<GetTimeResponse, GetTimeRequest>::default();
                Ok(Grpc::new(codec).unary(journal, request).await)
            })
        }
    }

    async fn link_to(journal: Journal) -> Link {
        let builder = ServerBuilder::new(Exposure::Internal);
        let builder = builder.register(journal, cairn_proto::DESCRIPTORS);
        builder.build().await.unwrap().link()
    }

    #[tokio::test]
    async fn the_time_is_what_memory_says() {
        let link = link_to(Journal(1_700_000_000_123)).await;
        assert_eq!(
            MemoryTime::new(link).read().await.unwrap(),
            1_700_000_000_123
        );
    }

    #[tokio::test]
    async fn a_time_that_is_none_is_an_error() {
        for none in [0, -1, i64::MIN] {
            let link = link_to(Journal(none)).await;
            let error = MemoryTime::new(link).read().await.unwrap_err();
            assert!(error.to_string().contains(&none.to_string()), "{error}");
        }
    }

    #[tokio::test]
    async fn without_a_memory_service_there_is_no_time() {
        let server = ServerBuilder::new(Exposure::Internal)
            .build()
            .await
            .unwrap();
        let link = server.link();
        let error = MemoryTime::new(link).read().await.unwrap_err();
        // In words: the log tells it.
        assert!(!error.to_string().contains("code:"), "{error}");
    }
}
