//! A connection to a server, over its program or HTTP, by the lifecycle that it speaks.
//!
//! A server of 2026-07-28 is discovered; an older one is asked to initialize. The library's automatic
//! mode tries the first and then the second over one connection; see `probe` for programs that are silent
//! or start slowly. That fails with servers that exit on what they do not know, or that answer with nothing,
//! so a second attempt initializes over a new connection. What worked is remembered for the server. All
//! attempts together have the time of one start.

use super::backlog::{Backlog, Paced};
use super::config::{self, Protocol, ServerConfig};
use super::error::of_start;
use super::frame::Room;
use super::handler::Handler;
use super::lines::Lines;
use super::probe::Probe;
use super::process::{Process, Program, Started};
use super::web::Web;
use crate::confine::Confine;
use crate::service::Programs;
use cairn_http::{HttpClient, HttpConfig, Proxies, build_client};
use cairn_supervise::Bounds;
use http::{HeaderName, HeaderValue};
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Longest silence of a server over HTTP: a stream of notifications may have nothing to say for long.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);

/// How long a program may leave the request to discover without an answer before it is asked to initialize,
/// unless a third of the time for its start is less. The library alone waits for ten seconds.
const SILENCE: Duration = Duration::from_secs(8);

/// What is connected to.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    /// Where a program runs.
    pub(crate) folder: PathBuf,
    /// The process's environment, for `PATH` and references, and what ends programs.
    pub(crate) programs: Programs,
    /// The folder without links on the way, as it was when the server was started last.
    pub(crate) real_folder: Mutex<Option<PathBuf>>,
    /// The last start took all of its time, so the next one tries the protocols in the other order: a server
    /// may hang on the first of them.
    pub(crate) is_reversed: AtomicBool,
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) service: RunningService<RoleClient, Handler>,
    pub(crate) process: Option<Process>,
    /// The lifecycle that worked.
    pub(crate) protocol: Protocol,
}

impl Connection {
    fn new(service: RunningService<RoleClient, Handler>, process: Option<Process>) -> Self {
        let info = service.peer_info();
        let protocol = match info.map(|info| info.protocol_version.clone()) {
            Some(version) if version.has_initialize() => Protocol::Legacy,
            _ => Protocol::V20260728,
        };
        Self {
            service,
            process,
            protocol,
        }
    }
}

/// Why there is none.
struct Failed {
    why: String,
    /// Another lifecycle would fail, too.
    is_final: bool,
}

impl Target {
    /// The folder of a server's program, without links on the way; none for an address.
    pub(crate) fn program_folder(&self) -> Option<PathBuf> {
        let folder = self.config.is_program().then_some(&self.folder)?;
        let real = self.real_folder.lock();
        let real = real.unwrap_or_else(PoisonError::into_inner);
        Some(real.as_ref().unwrap_or(folder).clone())
    }

    /// Looks that folder up, once for all tools of a list. Blocks.
    pub(crate) fn find_folder(&self) {
        let found = self.folder.canonicalize().ok();
        let real = self.real_folder.lock();
        *real.unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Connects, within the server's limit on its start for all lifecycles that are tried.
    ///
    /// # Errors
    /// Why it failed, in words that follow the server's name.
    pub(crate) async fn connect(
        &self,
        handler: &Handler,
        remembered: Option<Protocol>,
    ) -> Result<Connection, String> {
        let until = Instant::now() + Duration::from_millis(self.config.start_ms);
        let is_reversed = self.is_reversed.load(Ordering::Relaxed);
        let is_legacy_first = (remembered == Some(Protocol::Legacy)) != is_reversed;
        let attempts: &[Protocol] = match (self.config.protocol, is_legacy_first) {
            (Protocol::Legacy, _) => &[Protocol::Legacy],
            (Protocol::V20260728, _) => &[Protocol::V20260728],
            (Protocol::Auto, true) => &[Protocol::Legacy, Protocol::Auto],
            (Protocol::Auto, false) => &[Protocol::Auto, Protocol::Legacy],
        };
        let mut why = String::new();
        for protocol in attempts {
            match self.attempt(handler.clone(), *protocol, until).await {
                Ok(connection) => {
                    self.is_reversed.store(false, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(failed) => {
                    tracing::debug!(
                        server = self.name,
                        why = failed.why,
                        mode = protocol.name(),
                        "handshake failed"
                    );
                    if why.is_empty() || failed.is_final {
                        why = failed.why;
                    }
                    if Instant::now() >= until {
                        self.is_reversed.store(!is_reversed, Ordering::Relaxed);
                        break;
                    }
                    if failed.is_final {
                        break;
                    }
                }
            }
        }
        Err(why)
    }

    async fn attempt(
        &self,
        handler: Handler,
        protocol: Protocol,
        until: Instant,
    ) -> Result<Connection, Failed> {
        let newest = vec![ProtocolVersion::V_2026_07_28];
        let mode = match protocol {
            Protocol::Legacy => ClientLifecycleMode::Initialize,
            Protocol::V20260728 => ClientLifecycleMode::Discover {
                preferred_versions: newest,
            },
            Protocol::Auto => ClientLifecycleMode::Auto {
                preferred_versions: newest,
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
        };
        match self.config.is_program() {
            true => self.program(handler, mode, until).await,
            false => self.address(handler, mode, until).await,
        }
    }

    async fn program(
        &self,
        handler: Handler,
        mode: ClientLifecycleMode,
        until: Instant,
    ) -> Result<Connection, Failed> {
        let (mut process, output, input) = self.start()?;
        let room = Room::new(self.config.message_bytes);
        let lines = Lines::new(output, input, process.refused.clone(), room);
        let is_auto = matches!(mode, ClientLifecycleMode::Auto { .. });
        let probe = Probe::new(lines, is_auto.then(|| self.silence()));
        let transport = Backlog::new(Paced(probe), process.refused.clone());
        let why = match self.handshake(handler, transport, mode, until).await {
            Ok(Ok(service)) => return Ok(Connection::new(service, Some(process))),
            Ok(Err(error)) => of_program(&error, &mut process).await,
            Err(late) => late.why + &process.last_words().await,
        };
        Err(Failed {
            why,
            is_final: false,
        })
    }

    /// How long a program may leave the request to discover without an answer.
    fn silence(&self) -> Duration {
        SILENCE.min(Duration::from_millis(self.config.start_ms) / 3)
    }

    async fn address(
        &self,
        handler: Handler,
        mode: ClientLifecycleMode,
        until: Instant,
    ) -> Result<Connection, Failed> {
        let transport = Paced(self.http()?);
        let service = self.handshake(handler, transport, mode, until).await?;
        let failed = |error| {
            let broken = of_start(&error);
            Failed {
                why: broken.why,
                is_final: broken.is_refused || broken.is_unsent,
            }
        };
        Ok(Connection::new(service.map_err(failed)?, None))
    }

    /// The handshake, within its time.
    async fn handshake<T, E, A>(
        &self,
        handler: Handler,
        transport: T,
        mode: ClientLifecycleMode,
        until: Instant,
    ) -> Result<Result<RunningService<RoleClient, Handler>, ClientInitializeError>, Failed>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let served = Box::pin(handler.serve_with_lifecycle(transport, mode));
        let late = |_| Failed {
            why: format!(
                "did not answer the handshake within {} ms",
                self.config.start_ms
            ),
            is_final: false,
        };
        timeout_at(until, served).await.map_err(late)
    }

    fn start(&self) -> Result<Started, Failed> {
        let mut secrets = self.config.values.clone();
        let mut variables = BTreeMap::new();
        for (name, setting) in &self.config.env {
            let resolved = setting.resolve(&self.programs.environment);
            let resolved =
                resolved.map_err(|why| Failed::at_last(format!("could not be started: {why}")))?;
            secrets.extend(resolved.secrets);
            variables.insert(name.clone(), resolved.value);
        }
        let bounds = self.bounds()?;
        let program = Program {
            server: &self.name,
            command: &self.config.command,
            args: &self.config.args,
            folder: &self.folder,
            variables,
            path: self.programs.environment.get("PATH"),
            supervisor: self.programs.supervisor.as_ref(),
            bounds,
            secrets,
        };
        program.start().map_err(|error| {
            Failed::at_last(format!(
                "could not be started: {error}; its program is '{}'",
                self.config.command
            ))
        })
    }

    /// What a program may do that is to be confined. It may read its folder, too.
    fn bounds(&self) -> Result<Option<Bounds>, Failed> {
        if self.config.confine == Confine::None {
            return Ok(None);
        }
        let programs = &self.programs;
        let confined = programs
            .confined()
            .map_err(|why| Failed::at_last(why.to_owned()))?;
        let folder = std::slice::from_ref(&self.folder);
        let checked = confined.check(folder);
        checked.map_err(|why| Failed::at_last(why.why().to_owned()))?;
        let supervisor = programs.supervisor.as_ref();
        Ok(supervisor.map(|supervisor| confined.bounds(supervisor, folder)))
    }

    fn http(&self) -> Result<StreamableHttpClientTransport<Web>, Failed> {
        let variables = &self.programs.environment;
        let client: HttpClient = build_client(&HttpConfig {
            proxies: Proxies::read(|name| variables.get(name).map(String::as_str)),
            total_timeout: None,
            idle_timeout: Some(LONGEST_SILENCE),
            ..HttpConfig::default()
        })
        .map_err(|error| Failed::at_last(error.to_string()))?;
        let mut headers = HashMap::new();
        for (name, setting) in &self.config.headers {
            let resolved = setting.resolve(&self.programs.environment);
            let resolved = resolved
                .map_err(|why| Failed::at_last(format!("could not be connected to: {why}")))?;
            let invalid =
                || Failed::at_last(format!("header {name} has a value that HTTP forbids"));
            let mut value = HeaderValue::from_str(&resolved.value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            headers.insert(name, value);
        }
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.config.url.as_str())
            .custom_headers(headers)
            .max_concurrent_requests(64)
            .max_sse_event_size(self.config.message_bytes);
        // A stream that broke is asked for again at once, and not for ever: a call waits for it.
        let mut again = FixedInterval::default();
        again.max_times = Some(1);
        config.retry_config = Arc::new(again);
        Ok(StreamableHttpClientTransport::with_client(
            Web::new(client.raw().clone(), self.config.message_bytes),
            config,
        ))
    }
}

impl Failed {
    fn at_last(why: String) -> Self {
        Self {
            why,
            is_final: true,
        }
    }
}

/// What is known of a program says more than what its handshake lacked, unless the program said that itself.
async fn of_program(error: &ClientInitializeError, process: &mut Process) -> String {
    let over = match is_said(error) {
        true => None,
        false => process.why_over().await,
    };
    match over {
        Some(why) => why,
        None => of_start(error).why + &process.last_words().await,
    }
}

/// Whether a server answered why there can be no connection.
fn is_said(error: &ClientInitializeError) -> bool {
    use ClientInitializeError as E;
    match error {
        E::JsonRpcError(_) | E::NoCompatibleProtocolVersion { .. } => true,
        E::LegacyFallbackFailed { fallback, .. } => is_said(fallback),
        _ => false,
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The environment may hold secrets.
        f.debug_struct("Target")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The protocol by its name.
pub(crate) fn protocol_of(name: &str) -> Option<Protocol> {
    use config::Protocol::{Auto, Legacy, V20260728};
    [Auto, Legacy, V20260728]
        .into_iter()
        .find(|protocol| protocol.name() == name)
}
