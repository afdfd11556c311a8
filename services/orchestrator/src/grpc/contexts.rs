//! The contexts of a session: changed by commands, read from the fold, watched from the journal.

mod changes;
mod compact;
mod feed;
mod lines;
mod reads;
mod watch;

pub(super) use self::feed::Feeds;
use self::reads::Viewed;
use super::commands::answered;
use super::{Answer, Orchestrator, key_of};
use cairn_engine::limits::MAX_CONTEXT_NAME;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_server::ContextService;
use cairn_rpc::{RpcError, check_text};
use tonic::{Request, Response};

/// The name of a context; an empty one stands for the active context.
fn check_name(field: &str, name: &str) -> Result<(), RpcError> {
    check_text(field, name, MAX_CONTEXT_NAME)
}

#[tonic::async_trait]
impl ContextService for Orchestrator {
    async fn create_context(
        &self,
        request: Request<pb::CreateContextRequest>,
    ) -> Answer<pb::CreateContextResponse> {
        answered(&self.requests, request).await
    }

    async fn switch_context(
        &self,
        request: Request<pb::SwitchContextRequest>,
    ) -> Answer<pb::SwitchContextResponse> {
        answered(&self.requests, request).await
    }

    async fn switch_agent(
        &self,
        request: Request<pb::SwitchAgentRequest>,
    ) -> Answer<pb::SwitchAgentResponse> {
        answered(&self.requests, request).await
    }

    async fn set_mode(&self, request: Request<pb::SetModeRequest>) -> Answer<pb::SetModeResponse> {
        answered(&self.requests, request).await
    }

    async fn destroy_context(
        &self,
        request: Request<pb::DestroyContextRequest>,
    ) -> Answer<pb::DestroyContextResponse> {
        answered(&self.requests, request).await
    }

    async fn bridge_context(
        &self,
        request: Request<pb::BridgeContextRequest>,
    ) -> Answer<pb::BridgeContextResponse> {
        answered(&self.requests, request).await
    }

    async fn append_message(
        &self,
        request: Request<pb::AppendMessageRequest>,
    ) -> Answer<pb::AppendMessageResponse> {
        answered(&self.requests, request).await
    }

    async fn extend_messages(
        &self,
        request: Request<pb::ExtendMessagesRequest>,
    ) -> Answer<pb::ExtendMessagesResponse> {
        answered(&self.requests, request).await
    }

    async fn update_message(
        &self,
        request: Request<pb::UpdateMessageRequest>,
    ) -> Answer<pb::UpdateMessageResponse> {
        answered(&self.requests, request).await
    }

    async fn insert_message(
        &self,
        request: Request<pb::InsertMessageRequest>,
    ) -> Answer<pb::InsertMessageResponse> {
        answered(&self.requests, request).await
    }

    async fn remove_message(
        &self,
        request: Request<pb::RemoveMessageRequest>,
    ) -> Answer<pb::RemoveMessageResponse> {
        answered(&self.requests, request).await
    }

    async fn pop_message(
        &self,
        request: Request<pb::PopMessageRequest>,
    ) -> Answer<pb::PopMessageResponse> {
        answered(&self.requests, request).await
    }

    async fn retain_messages(
        &self,
        request: Request<pb::RetainMessagesRequest>,
    ) -> Answer<pb::RetainMessagesResponse> {
        answered(&self.requests, request).await
    }

    async fn clear_messages(
        &self,
        request: Request<pb::ClearMessagesRequest>,
    ) -> Answer<pb::ClearMessagesResponse> {
        answered(&self.requests, request).await
    }

    async fn set_window(
        &self,
        request: Request<pb::SetWindowRequest>,
    ) -> Answer<pb::SetWindowResponse> {
        answered(&self.requests, request).await
    }

    async fn update_context(
        &self,
        request: Request<pb::UpdateContextRequest>,
    ) -> Answer<pb::UpdateContextResponse> {
        answered(&self.requests, request).await
    }

    async fn compact_context(
        &self,
        request: Request<pb::CompactContextRequest>,
    ) -> Answer<pb::CompactContextResponse> {
        compact::compact(&self.requests, request).await
    }

    async fn import_context(
        &self,
        request: Request<pb::ImportContextRequest>,
    ) -> Answer<pb::ImportContextResponse> {
        changes::import(&self.requests, request).await
    }

    async fn list_contexts(
        &self,
        request: Request<pb::ListContextsRequest>,
    ) -> Answer<pb::ListContextsResponse> {
        reads::list(&self.requests, request).await
    }

    async fn get_message(
        &self,
        request: Request<pb::GetMessageRequest>,
    ) -> Answer<pb::GetMessageResponse> {
        let viewed = self.viewed(&request).await?;
        Ok(Response::new(reads::message(&viewed, request.get_ref())?))
    }

    async fn list_messages(
        &self,
        request: Request<pb::ListMessagesRequest>,
    ) -> Answer<pb::ListMessagesResponse> {
        let viewed = self.viewed(&request).await?;
        Ok(Response::new(reads::messages(&viewed, request.get_ref())?))
    }

    async fn count_messages(
        &self,
        request: Request<pb::CountMessagesRequest>,
    ) -> Answer<pb::CountMessagesResponse> {
        let viewed = self.viewed(&request).await?;
        Ok(Response::new(reads::counts(&viewed)?))
    }

    async fn find_messages(
        &self,
        request: Request<pb::FindMessagesRequest>,
    ) -> Answer<pb::FindMessagesResponse> {
        let role = changes::role("role", request.get_ref().role)?;
        let viewed = self.viewed(&request).await?;
        Ok(Response::new(reads::of_role(
            &viewed,
            request.get_ref(),
            role,
        )?))
    }

    async fn estimate_tokens(
        &self,
        request: Request<pb::EstimateTokensRequest>,
    ) -> Answer<pb::EstimateTokensResponse> {
        let viewed = self.viewed(&request).await?;
        Ok(Response::new(reads::tokens(&viewed)?))
    }

    type ExportContextStream = reads::Exported;

    async fn export_context(
        &self,
        request: Request<pb::ExportContextRequest>,
    ) -> Answer<Self::ExportContextStream> {
        let share = self.requests.readers.share();
        let view = || self.viewed(&request);
        let viewed = share.load(view, Viewed::bytes).await?;
        Ok(reads::export(viewed, share))
    }

    type WatchContextStream = watch::Notices;

    async fn watch_context(
        &self,
        request: Request<pb::WatchContextRequest>,
    ) -> Answer<Self::WatchContextStream> {
        let key = key_of(&request, &request.get_ref().session)?;
        let watched = watch::watch(
            self.requests.clone(),
            self.feeds.clone(),
            key,
            request.get_ref(),
        );
        Ok(watched.await?)
    }
}

/// A request that reads one context.
trait ContextRequest {
    /// The id of its session.
    fn session(&self) -> &str;

    /// The name of its context.
    fn context(&self) -> &str;
}

macro_rules! context_requests {
    ($($request:ident)*) => {$(
        impl ContextRequest for pb::$request {
            fn session(&self) -> &str {
                &self.session
            }

            fn context(&self) -> &str {
                &self.context
            }
        }
    )*};
}

context_requests! {
    GetMessageRequest ListMessagesRequest CountMessagesRequest FindMessagesRequest
    EstimateTokensRequest ExportContextRequest
}

impl Orchestrator {
    async fn viewed<R: ContextRequest>(&self, request: &Request<R>) -> Result<Viewed, RpcError> {
        Viewed::of(&self.requests, request).await
    }
}
