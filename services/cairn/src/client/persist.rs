//! Questions that are asked again when the process that serves them goes away, or is full.

use super::Client;
use crate::error::{CliError, INTERRUPTED};
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use cairn_rpc::{ErrorKind, Link, RpcError};
use std::io::Write as _;
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Response, Status};

/// Breaks in a row that are put up with.
const MOST_TRIES: u32 = 5;
/// Where a full server does not say when to ask again.
const PAUSE: Duration = Duration::from_secs(1);

impl Client<'_> {
    /// Asks, and asks whoever holds the store then if the connection breaks, and again when a server
    /// that is full may have room. Only for questions that may be repeated: reads, and changes that
    /// carry the same request id each time.
    ///
    /// # Errors
    /// The service's, its services stay out of reach, or it stays full for too long.
    pub async fn persist<T, F, A>(&mut self, ask: F) -> Result<T, CliError>
    where
        F: Fn(OrchestratorServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        let mut tries = 0;
        let patience = self.context().config().client.wait;
        let until = Instant::now() + patience;
        loop {
            let status = match ask(self.orchestrator()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => status,
            };
            let error = RpcError::from_status(&status);
            if error.reason_name() == RpcError::OVERLOADED {
                self.wait_for_room(error, until).await?;
                tries = 0;
                continue;
            }
            tries += 1;
            let broke = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Cancelled);
            if !broke || tries > MOST_TRIES || !self.attached().is_remote() {
                return Err(error.into());
            }
            self.reattach().await?;
        }
    }

    /// Waits for as long as the server says, and says so.
    async fn wait_for_room(&self, full: RpcError, until: Instant) -> Result<(), CliError> {
        let pause = full.retry_delay().unwrap_or(PAUSE);
        if Instant::now() + pause > until {
            let waited = self.context().config().client.wait;
            let hint = format!(
                "it was waited for {waited:?} (client.wait); try again later, or allow more with \
                 CAIRN_CLIENT__WAIT"
            );
            return Err(CliError::from(full).hint(hint));
        }
        let text = format!("{full}; it is tried again in {pause:.1?}");
        let text = cairn_rpc::text::escape(&text).into_owned();
        // Where this cannot be written, nobody is there to read it.
        let _ = writeln!(std::io::stderr(), "cairn: {text}");
        tokio::select! {
            () = self.context().stop.cancelled() => {
                Err(CliError::new("interrupted; nothing was started").code(INTERRUPTED))
            }
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}
