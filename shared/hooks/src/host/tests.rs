use super::*;
use crate::testing::asked;
use crate::{Policy, ask};
use cairn_engine::hooks::{HookFailure, Mutation};
use cairn_proto::hook::AskResponse;
use cairn_proto::hook::ask_request::Payload;
use cairn_proto::hook::hook_host_service_server::{HookHostService, HookHostServiceServer};
use cairn_rpc::trace::{TRACE_HEADER, TraceParent};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::{Code, Response};

const TIMEOUT: Duration = Duration::from_secs(20);

type Answer = fn(&AskRequest) -> Option<Result<AskResponse, Status>>;

/// Answers as it is told, or never. Keeps the questions.
#[derive(Clone)]
struct Service {
    answer: Answer,
    asked: Arc<Mutex<Vec<(MetadataMap, AskRequest)>>>,
}

#[tonic::async_trait]
impl HookHostService for Service {
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let (metadata, _, question) = request.into_parts();
        let answer = (self.answer)(&question);
        self.asked.lock().unwrap().push((metadata, question));
        match answer {
            Some(answer) => answer.map(Response::new),
            None => std::future::pending().await,
        }
    }
}

/// A service on a port of this machine.
struct Stand {
    url: String,
    service: Service,
    _serving: AbortOnDropHandle<()>,
}

impl Stand {
    async fn new(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Service {
            answer,
            asked: Arc::default(),
        };
        let served = Server::builder()
            .add_service(HookHostServiceServer::new(service.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let serving = tokio::spawn(async move { served.await.unwrap() });
        Self {
            url,
            service,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError> {
        host(&self.url, TIMEOUT).ask(asked).await
    }
}

fn host(url: &str, timeout: Duration) -> Host {
    Host {
        link: Links::default().get(url, timeout),
        timeout,
    }
}

/// An answer that a hook in Rust gives.
fn answers(verdict: Verdict) -> Option<Result<AskResponse, Status>> {
    Some(Ok(verdict.into()))
}

#[tokio::test]
async fn a_service_gets_the_whole_question() {
    let stand = Stand::new(|_| answers(Verdict::Block("no".to_owned()))).await;
    let trace: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        .parse()
        .unwrap();
    let asked = Asked {
        trace: Some(trace),
        ..asked(r#"{"command":"ls"}"#)
    };
    let answer = stand.ask(&asked).await;
    assert_eq!(answer, Ok(Verdict::Block("no".to_owned())));
    let questions = stand.service.asked.lock().unwrap();
    let [(metadata, question)] = &questions[..] else {
        panic!("{questions:?}");
    };
    let parent = metadata.get(TRACE_HEADER).unwrap().to_str().unwrap();
    assert_eq!(parent, trace.to_string());
    assert!(metadata.contains_key("grpc-timeout"));
    assert_eq!((&*question.key, &*question.hook), ("k-1", "guard"));
    let session = (&*question.namespace, &*question.session);
    assert_eq!(session, ("team", "s-1"));
    assert_eq!(question.plan_step_index, Some(0));
    let Some(Payload::Call(call)) = &question.payload else {
        panic!("{question:?}");
    };
    assert_eq!(call.tool, "shell_exec");
}

#[tokio::test]
async fn each_answer_arrives() {
    let verdicts: [(Answer, Verdict); 4] = [
        (|_| answers(Verdict::Proceed), Verdict::Proceed),
        (
            |_| answers(Verdict::Skip("done".to_owned())),
            Verdict::Skip("done".to_owned()),
        ),
        (
            |_| answers(Verdict::RequireApproval("look".to_owned())),
            Verdict::RequireApproval("look".to_owned()),
        ),
        (
            |_| answers(Verdict::Mutate(Mutation::Arguments("{}".to_owned()))),
            Verdict::Mutate(Mutation::Arguments("{}".to_owned())),
        ),
    ];
    for (answer, verdict) in verdicts {
        let stand = Stand::new(answer).await;
        assert_eq!(stand.ask(&asked("{}")).await, Ok(verdict));
    }
}

#[tokio::test]
async fn errors_say_whether_another_try_may_help() {
    let cases: [(Answer, bool); 5] = [
        (|_| Some(Err(Status::new(Code::Unavailable, "later"))), true),
        (
            |_| Some(Err(Status::new(Code::ResourceExhausted, "later"))),
            true,
        ),
        (|_| Some(Err(Status::new(Code::Internal, "broken"))), false),
        (
            |_| Some(Err(Status::new(Code::DeadlineExceeded, "its own"))),
            false,
        ),
        (
            |_| Some(Err(Status::new(Code::Unauthenticated, "who"))),
            false,
        ),
    ];
    for (answer, is_unreachable) in cases {
        let stand = Stand::new(answer).await;
        let error = stand.ask(&asked("{}")).await.unwrap_err();
        let found = matches!(error, HookError::Unreachable(_));
        assert_eq!(found, is_unreachable, "{error}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_wrong() {
    let large: Answer = |_| answers(Verdict::Skip("x".repeat(MAX_ANSWER)));
    let empty: Answer = |_| Some(Ok(AskResponse::default()));
    for answer in [large, empty] {
        let stand = Stand::new(answer).await;
        let error = stand.ask(&asked("{}")).await.unwrap_err();
        assert!(matches!(error, HookError::Wrong(_)), "{error}");
    }
}

/// Most servers take no more. What they answer would say nothing of the size, or look as if they were busy.
#[tokio::test]
async fn a_question_that_is_too_large_is_not_sent() {
    let stand = Stand::new(|_| answers(Verdict::Proceed)).await;
    let about = |bytes| asked(&format!(r#"{{"command":"{}"}}"#, "x".repeat(bytes)));
    let error = stand.ask(&about(MAX_QUESTION)).await.unwrap_err();
    assert!(matches!(error, HookError::Wrong(_)), "{error}");
    let why = error.to_string();
    let (size, limit) = ("the question has 41", "at most 4194304");
    assert!(why.starts_with(size) && why.contains(limit), "{why}");
    assert!(stand.service.asked.lock().unwrap().is_empty());
    let largest = stand.ask(&about(MAX_QUESTION - 1024)).await;
    assert_eq!(largest, Ok(Verdict::Proceed));
}

#[tokio::test]
async fn a_server_that_is_not_there_cannot_be_reached() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let error = host(&url, TIMEOUT).ask(&asked("{}")).await.unwrap_err();
    assert!(matches!(error, HookError::Unreachable(_)), "{error}");
    // Without TLS, a server does not have the certificate that https asks for.
    let plain = Stand::new(|_| answers(Verdict::Proceed)).await;
    let url = plain.url.replace("http:", "https:");
    let error = host(&url, TIMEOUT).ask(&asked("{}")).await.unwrap_err();
    assert!(matches!(error, HookError::Unreachable(_)), "{error}");
    assert!(plain.service.asked.lock().unwrap().is_empty());
    let error = host("hooks", TIMEOUT).ask(&asked("{}")).await.unwrap_err();
    assert!(matches!(error, HookError::Wrong(_)), "{error}");
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_late() {
    let stand = Stand::new(|_| None).await;
    let policy = Policy {
        timeout: Duration::from_millis(300),
        ..Policy::default()
    };
    let hook = host(&stand.url, policy.timeout);
    let (_, failed, _) = ask(&hook, &policy, &asked("{}")).await;
    assert_eq!(failed.unwrap().kind, HookFailure::Late);
    assert_eq!(stand.service.asked.lock().unwrap().len(), 1);
}

#[test]
fn addresses_are_read_and_shown() {
    for (text, shown) in [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("http://hooks.example.org/", "http://hooks.example.org:80"),
        ("https://hooks.example.org", "https://hooks.example.org:443"),
        ("https://[::1]:8443/", "https://[::1]:8443"),
        ("https://[::1]", "https://[::1]:443"),
        ("unix:/run/hook.sock", "unix:/run/hook.sock"),
    ] {
        assert_eq!(text.parse::<HostUrl>().unwrap().to_string(), shown);
    }
    for text in [
        "",
        "hooks.example.org:1",
        "https://",
        "https://u@h:1",
        "https://h:1/ask",
        "https://h/ask",
        "https://h?q",
        "ftp://h:1",
        "unix:",
    ] {
        text.parse::<HostUrl>().unwrap_err();
    }
}

#[tokio::test]
async fn links_are_shared_and_bounded() {
    let mut links = Links::default();
    let timeout = Duration::from_secs(1);
    links.get("http://first:1", timeout).unwrap();
    links.get("http://second:1", timeout).unwrap();
    for port in 2..MOST_LINKS {
        links.get(&format!("http://a:{port}"), timeout).unwrap();
        links.get("http://first:1", timeout).unwrap();
    }
    assert_eq!(links.links.len(), MOST_LINKS);
    links.get("http://b:1", timeout).unwrap();
    assert_eq!(links.links.len(), MOST_LINKS);
    let has = |url: &str| links.links.contains_key(&(url.to_owned(), timeout));
    assert!(has("http://first:1") && !has("http://second:1"));
    links.get("b:1", timeout).unwrap_err();
}
