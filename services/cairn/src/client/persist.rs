//! Questions that are asked again when the process that serves them goes away, is full, or has no
//! store for now.

use super::Client;
use crate::error::{CliError, INTERRUPTED};
use crate::ui::screen;
use cairn_memory::error::{NEWER_VERSION, NOT_WRITTEN, OUTCOME_UNKNOWN};
use cairn_proto::api::agent_service_client::AgentServiceClient;
use cairn_proto::api::hook_service_client::HookServiceClient;
use cairn_proto::api::knowledge_service_client::KnowledgeServiceClient;
use cairn_proto::api::pool_service_client::PoolServiceClient;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use cairn_rpc::{ErrorKind, Link, RpcError};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Response, Status};

/// Breaks in a row that are put up with.
const MOST_TRIES: u32 = 5;
/// Where a server does not say when to ask again, and at least.
const PAUSE: Duration = Duration::from_secs(1);

/// How long it is waited for what may be there later.
struct Patience {
    until: Instant,
    /// What was told of it last.
    reported: String,
    /// What was asked for may have happened, although nobody has said so.
    may_have_happened: bool,
}

impl Client<'_> {
    /// Asks, and asks whoever holds the store then if the connection breaks, and again when a server
    /// that is full may have room, or its store answer. Only for questions that may be repeated: reads,
    /// and changes that carry the same request id each time.
    ///
    /// # Errors
    /// The service's, its services stay out of reach, or it stays full or without its store for too
    /// long.
    pub async fn persist<T, F, A>(&mut self, ask: F) -> Result<T, CliError>
    where
        F: Fn(OrchestratorServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        self.persist_with(Client::orchestrator, ask).await
    }

    /// The same for questions about contexts.
    ///
    /// # Errors
    /// As [`Self::persist`].
    pub async fn persist_contexts<T, F, A>(&mut self, ask: F) -> Result<T, CliError>
    where
        F: Fn(ContextServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        self.persist_with(Client::contexts, ask).await
    }

    /// The same for questions about agents.
    ///
    /// # Errors
    /// As [`Self::persist`].
    pub async fn persist_agents<T, F, A>(&mut self, ask: F) -> Result<T, CliError>
    where
        F: Fn(AgentServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        self.persist_with(Client::agents, ask).await
    }

    /// The same for questions about hooks.
    ///
    /// # Errors
    /// As [`Self::persist`].
    pub async fn persist_hooks<T, F, A>(&mut self, ask: F) -> Result<T, CliError>
    where
        F: Fn(HookServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        self.persist_with(Client::hooks, ask).await
    }

    /// The same for questions about pages of knowledge.
    ///
    /// # Errors
    /// As [`Self::persist`].
    pub async fn persist_knowledge<T, F, A>(&mut self, ask: F) -> Result<T, CliError>
    where
        F: Fn(KnowledgeServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        self.persist_with(Client::knowledge, ask).await
    }

    /// The same for questions about the pool.
    ///
    /// # Errors
    /// As [`Self::persist`].
    pub async fn persist_pool<T, F, A>(&mut self, ask: F) -> Result<T, CliError>
    where
        F: Fn(PoolServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        self.persist_with(Client::pool, ask).await
    }

    async fn persist_with<C, T, F, A>(
        &mut self,
        service: impl Fn(&Self) -> C,
        ask: F,
    ) -> Result<T, CliError>
    where
        F: Fn(C) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        let mut tries = 0;
        let mut patience = self.patience();
        loop {
            let stop = self.context().stop.clone();
            let asked = tokio::select! {
                asked = ask(service(self)) => asked,
                () = stop.cancelled() => return Err(interrupted(true)),
            };
            let status = match asked {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => status,
            };
            let error = RpcError::from_status(&status);
            if self.may_be_later(&error) {
                self.wait_for(error, &mut patience).await?;
                tries = 0;
                continue;
            }
            tries += 1;
            // Of several processes that serve, another one may be newer.
            let broke = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Cancelled)
                || error.reason_name() == NEWER_VERSION;
            if !broke || tries > MOST_TRIES || !self.attached().is_remote() {
                return Err(error.into());
            }
            self.reattach().await?;
        }
    }

    /// Asks again when a server that is full may have room, or its store answer; and where a
    /// connection breaks another that may answer. For the same questions.
    ///
    /// # Errors
    /// The service's, or it stays full or without its store for too long.
    pub async fn patiently<T, F, A>(&self, ask: F) -> Result<T, CliError>
    where
        F: Fn(OrchestratorServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        let mut patience = self.patience();
        let mut tries = 0;
        loop {
            let error = match ask(self.orchestrator()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => RpcError::from_status(&status),
            };
            tries += 1;
            let broke = error.reason_name() == Link::BROKEN && self.attached().is_remote();
            if broke && tries < MOST_TRIES {
                continue;
            }
            if !self.may_be_later(&error) {
                return Err(error.into());
            }
            self.wait_for(error, &mut patience).await?;
        }
    }

    fn patience(&self) -> Patience {
        Patience {
            until: Instant::now() + self.context().config().client.wait,
            reported: String::new(),
            may_have_happened: false,
        }
    }

    /// Whether there is hope. A store of servers can come back, and others may take over; a file that
    /// does not work is a matter for whoever asks.
    fn may_be_later(&self, error: &RpcError) -> bool {
        let is_shared = self.attached().is_remote() || self.context().config().store.is_redis();
        match error.reason_name() {
            RpcError::OVERLOADED => true,
            NOT_WRITTEN | OUTCOME_UNKNOWN => is_shared,
            _ => false,
        }
    }

    /// Waits for as long as the server says, and says so once.
    async fn wait_for(&self, error: RpcError, patience: &mut Patience) -> Result<(), CliError> {
        patience.may_have_happened |= error.reason_name() == OUTCOME_UNKNOWN;
        let pause = error.retry_delay().unwrap_or(PAUSE).max(PAUSE);
        let most = self.context().config().client.wait;
        if Instant::now() + pause > patience.until {
            let hint = format!(
                "it was waited for {most:?} (client.wait); try again later, or allow more with \
                 CAIRN_CLIENT__WAIT"
            );
            return Err(CliError::from(error).hint(hint));
        }
        let text = cairn_rpc::text::escape(&error.to_string()).into_owned();
        if text != patience.reported {
            screen::tell(&format!("{text}; it is tried again for {most:?}"));
            patience.reported = text;
        }
        tokio::select! {
            () = self.context().stop.cancelled() => Err(interrupted(patience.may_have_happened)),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}

fn interrupted(may_have_happened: bool) -> CliError {
    let what = match may_have_happened {
        true => "interrupted; what was asked for may have happened",
        false => "interrupted; nothing was done",
    };
    CliError::new(what).code(INTERRUPTED)
}
