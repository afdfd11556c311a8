//! What a server may ask of its client: to take progress, and to list again.

use super::mask::Mask;
use crate::progress::{Progress, ProgressStep};
use crate::text;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken,
    ProtocolVersion, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use std::collections::HashMap;
use std::sync::{Arc, Once};
use tokio::sync::{Mutex, Notify};

/// Most characters of the message of a step.
const MOST_MESSAGE: usize = 1_000;

/// The calls that progress goes to. The lock is held while a call is sent, so that its first step finds
/// it.
pub(crate) type Routes = Mutex<HashMap<ProgressToken, Progress>>;

/// This client, as a server sees it.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) server: Arc<str>,
    pub(crate) routes: Arc<Routes>,
    /// The server's list is another one.
    pub(crate) changed: Arc<Notify>,
    /// That questions are declined was logged.
    pub(crate) declined: Arc<Once>,
    /// Secrets that progress must not show.
    pub(crate) mask: Arc<Mask>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        // For the handshake of older servers; a newer one is asked for its versions.
        info.protocol_version = ProtocolVersion::V_2025_11_25;
        // Sampling, roots and tasks are not offered.
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::new());
        info.capabilities.elicitation = Some(elicitation);
        info.client_info = Implementation::new("cairn", env!("CARGO_PKG_VERSION"));
        info
    }

    /// A question that holds its call open would be lost with the connection, so it is declined. The
    /// questions of the version 2026-07-28 end the call, and reach a person.
    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        self.declined.call_once(|| {
            tracing::warn!(
                server = &*self.server,
                "question of a server declined: it must speak 2026-07-28 to ask a person"
            );
        });
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let progress = self
            .routes
            .lock()
            .await
            .get(&params.progress_token)
            .cloned();
        if let Some(progress) = progress {
            let message = self.mask.text(params.message.unwrap_or_default());
            progress.report(ProgressStep {
                progress: params.progress,
                total: params.total.unwrap_or_default(),
                message: text::brief(&message, MOST_MESSAGE),
            });
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
