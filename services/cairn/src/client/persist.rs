//! Questions that are asked again when the process that serves them goes away.

use super::Client;
use crate::error::CliError;
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use cairn_rpc::{ErrorKind, Link, RpcError};
use tonic::{Response, Status};

/// Breaks in a row that are put up with.
const MOST_TRIES: u32 = 5;

impl Client<'_> {
    /// Asks, and asks whoever holds the store then if the connection breaks. Only for questions
    /// that may be repeated: reads, and changes that carry the same request id each time.
    ///
    /// # Errors
    /// The service's, or its services stay out of reach.
    pub async fn persist<T, F, A>(&mut self, ask: F) -> Result<T, CliError>
    where
        F: Fn(OrchestratorServiceClient<Link>) -> A,
        A: Future<Output = Result<Response<T>, Status>>,
    {
        let mut tries = 0;
        loop {
            let status = match ask(self.orchestrator()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => status,
            };
            tries += 1;
            let error = RpcError::from_status(&status);
            let broke = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Cancelled);
            if !broke || tries > MOST_TRIES || !self.attached().is_remote() {
                return Err(error.into());
            }
            self.reattach().await?;
        }
    }
}
