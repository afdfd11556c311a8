//! The public services, as commands use them.

mod persist;
pub mod watch;

pub use watch::{Watch, Watched};

use crate::attach::{Access, Attached, Servers, attach};
use crate::context::Context;
use crate::error::{CliError, USAGE};
use crate::settings::hooks::time_at_end;
use crate::workspace;
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_proto::api::agent_service_client::AgentServiceClient;
use cairn_proto::api::hook_service_client::HookServiceClient;
use cairn_proto::api::knowledge_service_client::KnowledgeServiceClient;
use cairn_proto::api::pool_service_client::PoolServiceClient;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use cairn_proto::orchestrator::{
    GetSessionRequest, ListSessionsRequest, ListSessionsResponse, SessionFilter, SessionStatus,
    SessionSummary,
};
use cairn_rpc::{Link, RpcError};

/// Largest answer that is taken: reports and trees of long runs.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Sessions whose run has not ended.
pub const ACTIVE: [SessionStatus; 3] = [
    SessionStatus::Running,
    SessionStatus::Waiting,
    SessionStatus::Paused,
];

/// The same, and those that are quarantined.
pub const UNFINISHED: [SessionStatus; 4] = [
    SessionStatus::Running,
    SessionStatus::Waiting,
    SessionStatus::Paused,
    SessionStatus::Quarantined,
];

/// A way to the public services that can be made anew when it breaks.
#[derive(Debug)]
pub struct Client<'a> {
    context: &'a Context,
    access: Access,
    servers: Servers,
    attached: Attached,
    /// The session that this command works on, if it holds the store.
    own: Option<String>,
}

impl<'a> Client<'a> {
    /// Reaches the services.
    ///
    /// # Errors
    /// See [`attach`].
    pub async fn attach(context: &'a Context, access: Access) -> Result<Self, CliError> {
        Self::attach_with(context, access, Servers::of_access(access)).await
    }

    /// The same for a command that needs these servers of tools.
    ///
    /// # Errors
    /// See [`attach`].
    pub async fn attach_with(
        context: &'a Context,
        access: Access,
        servers: Servers,
    ) -> Result<Self, CliError> {
        let attached = attach(context, access, &servers).await?;
        Ok(Self {
            context,
            access,
            servers,
            attached,
            own: None,
        })
    }

    /// Works on this session from now on, also after another process that held the store has gone.
    ///
    /// # Errors
    /// See [`Self::check_folder`].
    pub fn work_on(&mut self, session: &str) -> Result<(), CliError> {
        self.check_folder(Some(session))?;
        self.attached.take_up(session);
        self.own = Some(session.to_owned());
        Ok(())
    }

    /// Refuses a session, or without one any session, whose unfinished work belongs to another folder
    /// than the one in which this command would continue it.
    ///
    /// # Errors
    /// There is such work.
    pub fn check_folder(&self, session: Option<&str>) -> Result<(), CliError> {
        // Services elsewhere have a folder of their own.
        if self.context.config().client.server.is_some() {
            return Ok(());
        }
        let is_carried_out = match self.access {
            Access::Read => false,
            Access::Change | Access::Make => self.attached.is_carried_out_elsewhere(),
            Access::Own | Access::Hold => true,
        };
        if !is_carried_out {
            return Ok(());
        }
        let is_holder = self.attached.is_holder();
        workspace::check_session(self.context, &self.attached.store, session, is_holder)
    }

    /// What holds for the command.
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// The way itself.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    /// The model that a request for this agent names; empty for the default agent. A process elsewhere that does
    /// the work has models of its own and a default of its own, and an agent may have a model of its own, which a
    /// request would go before. So only a model that the person named is sent to either.
    pub fn model(&self, named: Option<String>, agent: &str) -> String {
        let has_agent = !matches!(agent, "" | DEFAULT_AGENT);
        match named {
            Some(named) => named,
            None if has_agent || self.attached.is_remote() => String::new(),
            None => self.context.config().default_model().to_owned(),
        }
    }

    /// Reaches the services anew, after the process that held the store has gone.
    ///
    /// # Errors
    /// See [`attach`] and [`Self::check_folder`].
    pub async fn reattach(&mut self) -> Result<(), CliError> {
        self.attached = attach(self.context, self.access, &self.servers).await?;
        if let Some(session) = &self.own {
            self.check_folder(Some(session))?;
            self.attached.take_up(session);
        }
        Ok(())
    }

    /// Sessions and runs.
    pub fn orchestrator(&self) -> OrchestratorServiceClient<Link> {
        orchestrator(&self.attached.link)
    }

    /// Contexts.
    pub fn contexts(&self) -> ContextServiceClient<Link> {
        ContextServiceClient::new(self.attached.link.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Agents.
    pub fn agents(&self) -> AgentServiceClient<Link> {
        AgentServiceClient::new(self.attached.link.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Hooks.
    pub fn hooks(&self) -> HookServiceClient<Link> {
        HookServiceClient::new(self.attached.link.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Pages of knowledge.
    pub fn knowledge(&self) -> KnowledgeServiceClient<Link> {
        KnowledgeServiceClient::new(self.attached.link.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// The pool.
    pub fn pool(&self) -> PoolServiceClient<Link> {
        PoolServiceClient::new(self.attached.link.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// Session memory.
    pub fn memory(&self) -> SessionMemoryServiceClient<Link> {
        SessionMemoryServiceClient::new(self.attached.link.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// The first sessions of a listing, at most `most`.
    ///
    /// # Errors
    /// The service's.
    pub async fn list(
        &self,
        request: ListSessionsRequest,
        most: usize,
    ) -> Result<Vec<SessionSummary>, CliError> {
        let ask = |request: ListSessionsRequest| {
            self.patiently(move |mut orchestrator| {
                let request = request.clone();
                async move { orchestrator.list_sessions(request).await }
            })
        };
        pages(ask, request, most).await
    }

    /// The sessions whose run has not ended, and those that are quarantined, newest first.
    ///
    /// # Errors
    /// The service's.
    pub async fn unfinished(&self, most: usize) -> Result<Vec<SessionSummary>, CliError> {
        self.list(with_status(&UNFINISHED), most).await
    }

    /// The session that was created last.
    ///
    /// # Errors
    /// There is none yet; the service's.
    pub async fn latest(&self) -> Result<SessionSummary, CliError> {
        let latest = self.list(ListSessionsRequest::default(), 1).await?.pop();
        latest.ok_or_else(|| {
            CliError::new("there is no session yet").hint("begin with: cairn run \"<goal>\"")
        })
    }

    /// The id of the session that is meant: a whole id, a beginning that only one has, or without
    /// any the latest session.
    ///
    /// # Errors
    /// No session fits, or several do. See [`Self::check_folder`].
    pub async fn resolve(&self, given: Option<&str>) -> Result<String, CliError> {
        let session = self.found(given).await?;
        self.check_folder(Some(&session))?;
        Ok(session)
    }

    async fn found(&self, given: Option<&str>) -> Result<String, CliError> {
        let Some(given) = given else {
            return self.latest().await.map(|session| session.id);
        };
        if given.is_empty() {
            // All ids begin so; most likely a variable of a script is not set.
            return Err(CliError::usage("the session's id is empty")
                .hint("name the session, or leave it out for the latest"));
        }
        if self.is_there(given).await? {
            return Ok(given.to_owned());
        }
        let request = ListSessionsRequest {
            filter: Some(SessionFilter {
                prefix: given.to_owned(),
                ..SessionFilter::default()
            }),
            ..ListSessionsRequest::default()
        };
        // Those whose title begins so are among them.
        let sessions = self.list(request, usize::MAX).await?;
        let fitting = sessions.iter().map(|session| &session.id);
        let fitting: Vec<&String> = fitting.filter(|id| id.starts_with(given)).collect();
        match fitting.as_slice() {
            [one] => Ok((*one).clone()),
            [] => Err(self.missing(given).await),
            several => Err(CliError::usage(format!(
                "{} sessions begin with {given}",
                several.len()
            ))
            .hint("give more of the id; see them all with: cairn sessions")),
        }
    }

    /// Whether there is a session of this id. Asks for nothing but that: others may be where no server
    /// answers for now.
    ///
    /// # Errors
    /// The service's.
    pub async fn is_there(&self, id: &str) -> Result<bool, CliError> {
        let asked = GetSessionRequest {
            session: id.to_owned(),
        };
        let found = self.patiently(|mut orchestrator| {
            let asked = asked.clone();
            async move { orchestrator.get_session(asked).await }
        });
        match found.await {
            Ok(_) => Ok(true),
            // It never was, is no more, or cannot be.
            Err(error) if matches!(error.reason.as_str(), "NOT_FOUND" | "TERMINAL") => Ok(false),
            Err(error) if error.code == USAGE => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Why there is no session of this id: it may have been there.
    async fn missing(&self, id: &str) -> CliError {
        let session = id.to_owned();
        let asked = GetSessionRequest { session };
        match self.orchestrator().get_session(asked).await.err() {
            Some(status) if RpcError::from_status(&status).reason_name() == "TERMINAL" => {
                let error = RpcError::from_status(&status);
                CliError::new(error.to_string().replacen(
                    "the session",
                    &format!("session {id}"),
                    1,
                ))
            }
            _ => CliError::new(format!("no session is called {id}"))
                .hint("see them all with: cairn sessions"),
        }
    }

    /// The events of a session after a cursor, and what follows, for as long as it is asked for.
    pub fn watch(&mut self, session: &str, after: u64) -> Watch<'_, 'a> {
        Watch::new(self, session, after)
    }

    /// Leaves. A process that holds the store lets running calls end first, and has hooks asked about the ends of runs.
    pub async fn finish(self) {
        let context = self.context;
        let for_hooks = time_at_end(&context.config().hooks);
        self.attached.finish(for_hooks, &context.stop).await;
    }
}

fn orchestrator(link: &Link) -> OrchestratorServiceClient<Link> {
    OrchestratorServiceClient::new(link.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
}

/// The ids of the sessions behind a link that have one of these statuses, newest first.
///
/// # Errors
/// The service's.
pub async fn ids_with_status(
    link: &Link,
    statuses: &[SessionStatus],
) -> Result<Vec<String>, CliError> {
    let ask = async |request| {
        let page = orchestrator(link).list_sessions(request).await?;
        Ok(page.into_inner())
    };
    let sessions = pages(ask, with_status(statuses), usize::MAX).await?;
    Ok(sessions.into_iter().map(|session| session.id).collect())
}

/// Asks for sessions with one of these statuses, newest first.
pub fn with_status(statuses: &[SessionStatus]) -> ListSessionsRequest {
    let statuses = statuses.iter().copied().map(Into::into);
    ListSessionsRequest {
        filter: Some(SessionFilter {
            statuses: statuses.collect(),
            ..SessionFilter::default()
        }),
        ..ListSessionsRequest::default()
    }
}

/// Asks for pages until there are enough sessions or no more pages. A page may be empty.
async fn pages(
    ask: impl AsyncFn(ListSessionsRequest) -> Result<ListSessionsResponse, CliError>,
    mut request: ListSessionsRequest,
    most: usize,
) -> Result<Vec<SessionSummary>, CliError> {
    let mut sessions = Vec::new();
    loop {
        let wanted = most.saturating_sub(sessions.len()).min(1000);
        request.page_size = u32::try_from(wanted).unwrap_or(1000);
        let page = ask(request.clone()).await?;
        sessions.extend(page.sessions);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() || sessions.len() >= most {
            return Ok(sessions);
        }
    }
}
