//! Which protocol a program speaks, asked of one that may take long to start.
//!
//! The library asks a program to discover. It asks the program to initialize once that has an error for an
//! answer, or none within ten seconds. A program that takes longer to start reads both requests then, and the
//! library takes the answer to the first one for a wrong answer to the second. Here each answer counts for
//! what it answers, so that a program is started once, however long that takes.

use super::web::answered_id;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData,
    InitializeResult, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A transport whose program may answer both requests of a handshake.
pub(crate) struct Probe<T> {
    inner: T,
    /// How long the program may leave the request to discover without an answer, before the library is to ask
    /// it to initialize. As long as the library waits if there is none.
    silence: Option<Duration>,
    /// The request to discover, while it has no answer.
    discover: Option<RequestId>,
    initialize: Initialize,
    /// When the wait for the answer to the request to discover ends.
    until: Option<Instant>,
}

/// The request to initialize.
enum Initialize {
    NotSent,
    /// It has no answer.
    Sent(RequestId),
    /// The program refused it, which counts unless it can be discovered.
    Refused(RequestId, Box<ServerJsonRpcMessage>),
    Answered,
    /// The program was discovered after all. Its own answer, if that has not come, is left out.
    Replaced(Option<RequestId>),
}

impl<T> Probe<T> {
    /// `silence` is how long the program may leave the request to discover without an answer; without one, the
    /// library alone decides.
    pub(crate) fn new(inner: T, silence: Option<Duration>) -> Self {
        Self {
            inner,
            silence,
            discover: None,
            initialize: Initialize::NotSent,
            until: None,
        }
    }

    /// Notes a request of the handshake. Returns whether the program is to get the message.
    fn note(&mut self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::DiscoverRequest(_) => {
                    self.discover = Some(request.id.clone());
                    self.begin_wait();
                }
                ClientRequest::InitializeRequest(_) => {
                    self.initialize = Initialize::Sent(request.id.clone());
                    self.until = None;
                }
                _ => {}
            },
            JsonRpcMessage::Notification(notification) => {
                let is_end = matches!(
                    notification.notification,
                    ClientNotification::InitializedNotification(_)
                );
                // The protocol of a discovered program has none.
                return !(is_end && matches!(self.initialize, Initialize::Replaced(_)));
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        true
    }

    fn begin_wait(&mut self) {
        self.until = self.silence.map(|silence| Instant::now() + silence);
    }

    /// What the library gets of a message; nothing if it is to wait for the next one.
    fn read(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let answered = answered_id(&message);
        let is = |asked: &RequestId| {
            // Some servers make text of a number.
            answered.is_some_and(|answered| answered.to_string() == asked.to_string())
        };
        // Answers come in the order of the requests, so one without an id is for the first.
        let is_nameless = matches!(&message, JsonRpcMessage::Error(error) if error.id.is_none());
        let is_discovery = self
            .discover
            .as_ref()
            .is_some_and(|it| is_nameless || is(it));
        let is_initialization = match &self.initialize {
            Initialize::Sent(id) | Initialize::Replaced(Some(id)) => is(id),
            _ => false,
        };
        match (is_discovery, is_initialization) {
            (true, _) => self.discovered(message),
            (false, true) => self.initialized(message),
            (false, false) => Some(message),
        }
    }

    /// Takes the answer to the request to discover.
    fn discovered(&mut self, answer: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        self.discover = None;
        self.until = None;
        match std::mem::replace(&mut self.initialize, Initialize::Answered) {
            Initialize::NotSent => {
                self.initialize = Initialize::NotSent;
                Some(answer)
            }
            Initialize::Sent(id) => match as_initialized(answer, &id) {
                Some(initialized) => {
                    self.initialize = Initialize::Replaced(Some(id));
                    Some(initialized)
                }
                None => {
                    self.initialize = Initialize::Sent(id);
                    None
                }
            },
            Initialize::Refused(id, refusal) => match as_initialized(answer, &id) {
                Some(initialized) => {
                    self.initialize = Initialize::Replaced(None);
                    Some(initialized)
                }
                None => Some(*refusal),
            },
            Initialize::Answered | Initialize::Replaced(_) => None,
        }
    }

    /// Takes the answer to the request to initialize.
    fn initialized(&mut self, answer: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let is_refusal = matches!(answer, JsonRpcMessage::Error(_));
        match std::mem::replace(&mut self.initialize, Initialize::Answered) {
            // What a program does not know may have its answer before what it knows.
            Initialize::Sent(id) if is_refusal && self.discover.is_some() => {
                self.initialize = Initialize::Refused(id, Box::new(answer));
                self.begin_wait();
                None
            }
            Initialize::Replaced(_) => None,
            _ => Some(answer),
        }
    }

    /// The answer to the request to discover did not come in time.
    fn give_up(&mut self) -> Option<ServerJsonRpcMessage> {
        self.until = None;
        match std::mem::replace(&mut self.initialize, Initialize::Answered) {
            Initialize::Refused(_, refusal) => Some(*refusal),
            other => {
                self.initialize = other;
                let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None);
                let id = self.discover.clone()?;
                Some(JsonRpcMessage::error(error, Some(id)))
            }
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Probe<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sent = match self.note(&item) {
            true => Some(self.inner.send(item)),
            false => None,
        };
        async move {
            match sent {
                Some(sent) => sent.await,
                None => Ok(()),
            }
        }
    }

    /// Nothing is lost if the future is dropped and that of the inner transport loses nothing.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let received = match self.until {
                None => Ok(self.inner.receive().await),
                Some(until) => timeout_at(until, self.inner.receive()).await,
            };
            let passed_on = match received {
                Ok(Some(message)) => self.read(message),
                Ok(None) => {
                    return match std::mem::replace(&mut self.initialize, Initialize::Answered) {
                        Initialize::Refused(_, refusal) => Some(*refusal),
                        _ => None,
                    };
                }
                Err(_) => self.give_up(),
            };
            if passed_on.is_some() {
                return passed_on;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// What a program would have answered to the request to initialize, if this answer says that it speaks the
/// newest protocol. The library takes an answer with that version for a program that needs no handshake.
fn as_initialized(answer: ServerJsonRpcMessage, id: &RequestId) -> Option<ServerJsonRpcMessage> {
    let JsonRpcMessage::Response(response) = answer else {
        return None;
    };
    let ServerResult::DiscoverResult(found) = response.result else {
        return None;
    };
    let newest = ProtocolVersion::V_2026_07_28;
    if !found.supported_versions.contains(&newest) {
        return None;
    }
    let server = found.server_info();
    let mut result = InitializeResult::new(found.capabilities).with_protocol_version(newest);
    if let Some(server) = server {
        result = result.with_server_info(server);
    }
    result.instructions = found.instructions;
    result.meta = found.meta;
    let result = ServerResult::InitializeResult(result);
    Some(JsonRpcMessage::response(result, id.clone()))
}

#[cfg(test)]
mod tests;
