//! Messages of a program, each a line of its standard input or output.

use super::frame::{Gathered, Room};
use super::process::Refused;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use std::collections::VecDeque;
use std::io;
use tokio::io::{AsyncBufReadExt as _, BufReader, Empty, empty};
use tokio::process::{ChildStdin, ChildStdout};

/// Bytes that a pipe holds.
const PIPE: usize = 64 * 1024;

/// The transport over a program. It reads by itself: the library leaves out a line that it cannot read, and
/// its request waits.
pub(crate) struct Lines {
    output: BufReader<ChildStdout>,
    /// The library's, to write only.
    input: AsyncRwTransport<RoleClient, Empty, ChildStdin>,
    line: Gathered,
    /// Messages of the last line.
    ready: VecDeque<ServerJsonRpcMessage>,
    refused: Refused,
}

impl Lines {
    pub(crate) fn new(
        output: ChildStdout,
        input: ChildStdin,
        refused: Refused,
        room: Room,
    ) -> Self {
        Self {
            output: BufReader::with_capacity(PIPE, output),
            input: AsyncRwTransport::new_client(empty(), input),
            line: Gathered::new(None, room),
            ready: VecDeque::new(),
            refused,
        }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.input.send(item)
    }

    /// Nothing is lost if the future is dropped: it only waits before it takes bytes.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            let available = match self.output.fill_buf().await {
                Ok(available) => available,
                Err(error) => {
                    tracing::debug!(%error, "standard output of a server cannot be read");
                    return None;
                }
            };
            if available.is_empty() {
                // The last line may lack its end.
                self.ready.extend(self.line.end());
                if self.ready.is_empty() {
                    return None;
                }
                continue;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            let read = piece.len() + usize::from(end.is_some());
            let added = self.line.add(piece);
            self.output.consume(read);
            if added.is_err() {
                self.refused.set("sent a message of more than 64 MiB");
                return None;
            }
            if end.is_some() {
                self.ready.extend(self.line.end());
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.input.close().await
    }
}
