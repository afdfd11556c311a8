use super::*;
use crate::mcp::error::of_start;
use rmcp::model::{DiscoverResult, ServerCapabilities};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RunningService,
};
use std::io;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A program that the test plays.
struct Played {
    sent: UnboundedSender<ClientJsonRpcMessage>,
    answers: UnboundedReceiver<ServerJsonRpcMessage>,
}

impl Transport<RoleClient> for Played {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let sent = self.sent.send(item);
        std::future::ready(sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe)))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.answers.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a program answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Discovered,
    NotDiscovered,
    /// The same without an id.
    Nameless,
    Initialized,
    NotInitialized,
}

impl Answer {
    fn message(self, discover: &RequestId, initialize: &RequestId) -> ServerJsonRpcMessage {
        let error = |words: &'static str| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, words, None);
        let capabilities = ServerCapabilities::default();
        match self {
            Self::Discovered => {
                let versions = vec![ProtocolVersion::V_2026_07_28];
                let found = DiscoverResult::new(versions, capabilities);
                let result = ServerResult::DiscoverResult(found);
                JsonRpcMessage::response(result, discover.clone())
            }
            Self::NotDiscovered => JsonRpcMessage::error(error("late"), Some(discover.clone())),
            Self::Nameless => JsonRpcMessage::error(error("late"), None),
            Self::Initialized => {
                let result = InitializeResult::new(capabilities)
                    .with_protocol_version(ProtocolVersion::V_2025_11_25);
                let result = ServerResult::InitializeResult(result);
                JsonRpcMessage::response(result, initialize.clone())
            }
            Self::NotInitialized => {
                JsonRpcMessage::error(error("no longer spoken"), Some(initialize.clone()))
            }
        }
    }
}

/// What came of a handshake.
struct Handshake {
    service: Result<RunningService<RoleClient, ()>, ClientInitializeError>,
    /// What was sent after the two requests.
    sent: UnboundedReceiver<ClientJsonRpcMessage>,
    /// The program stays there.
    _answers: UnboundedSender<ServerJsonRpcMessage>,
}

async fn request(sent: &mut UnboundedReceiver<ClientJsonRpcMessage>) -> (ClientRequest, RequestId) {
    let message = sent.recv().await.expect("a message");
    message.into_request().expect("a request")
}

/// A handshake with a program that answers nothing before it was asked to initialize, and then this.
async fn late(answers: &[Answer]) -> Handshake {
    let (to_program, mut sent) = unbounded_channel();
    let (from_program, received) = unbounded_channel();
    let played = Played {
        sent: to_program,
        answers: received,
    };
    let mode = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let probe = Probe::new(played, Some(Duration::from_millis(1)));
    let program = async {
        let (asked, discover) = request(&mut sent).await;
        assert!(matches!(asked, ClientRequest::DiscoverRequest(_)));
        let (asked, initialize) = request(&mut sent).await;
        assert!(matches!(asked, ClientRequest::InitializeRequest(_)));
        for answer in answers {
            let message = answer.message(&discover, &initialize);
            from_program.send(message).expect("a listener");
        }
    };
    let (service, ()) = tokio::join!(Box::pin(().serve_with_lifecycle(probe, mode)), program);
    Handshake {
        service,
        sent,
        _answers: from_program,
    }
}

/// Such a program reads both requests once it has started, and answers both.
#[tokio::test]
async fn a_program_that_starts_late_is_connected_to_by_the_protocol_that_it_speaks() {
    use Answer::{Discovered, Initialized, Nameless, NotDiscovered, NotInitialized};
    let (legacy, newest) = (ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28);
    let table: [(&[Answer], &ProtocolVersion); 7] = [
        (&[NotDiscovered, Initialized], &legacy),
        (&[Initialized, NotDiscovered], &legacy),
        (&[Nameless, Initialized], &legacy),
        // It does not know the first request, and says nothing of it.
        (&[Initialized], &legacy),
        (&[Discovered, NotInitialized], &newest),
        (&[NotInitialized, Discovered], &newest),
        // It speaks both.
        (&[Discovered, Initialized], &newest),
    ];
    for (answers, expected) in table {
        let mut handshake = late(answers).await;
        let service = handshake.service.expect("a connection");
        let info = service.peer_info().expect("a server");
        assert_eq!(&info.protocol_version, expected, "{answers:?}");
        // Only the older protocol is told that the handshake is over.
        let is_told = handshake.sent.try_recv().is_ok();
        assert_eq!(is_told, expected == &legacy, "{answers:?}");
        assert!(handshake.sent.try_recv().is_err(), "{answers:?}");
    }
}

#[tokio::test]
async fn a_program_that_refuses_both_has_its_reason_shown() {
    use Answer::{NotDiscovered, NotInitialized};
    for answers in [
        &[NotDiscovered, NotInitialized][..],
        &[NotInitialized, NotDiscovered],
        // The answer to the first request never comes.
        &[NotInitialized],
    ] {
        let Err(error) = late(answers).await.service else {
            panic!("{answers:?}: a connection");
        };
        let why = of_start(&error).why;
        assert!(why.contains("no longer spoken"), "{answers:?}: {why}");
    }
}

/// Where the protocol is fixed, a program has all the time to answer.
#[tokio::test]
async fn without_a_limit_an_answer_is_only_waited_for() {
    let (to_program, mut sent) = unbounded_channel();
    let (from_program, received) = unbounded_channel();
    let played = Played {
        sent: to_program,
        answers: received,
    };
    let mode = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let program = async {
        let (_, discover) = request(&mut sent).await;
        let answer = Answer::Discovered.message(&discover, &discover);
        from_program.send(answer).expect("a listener");
    };
    let served = ().serve_with_lifecycle(Probe::new(played, None), mode);
    let (service, ()) = tokio::join!(Box::pin(served), program);
    let service = service.expect("a connection");
    let info = service.peer_info().expect("a server");
    assert_eq!(info.protocol_version, ProtocolVersion::V_2026_07_28);
}
