//! Health and reflection follow from what was registered.

use crate::demo::{DESCRIPTORS, Demo, NAME};
use crate::stand::{Kind, Stand, within};
use cairn_rpc::{BuildError, Exposure, ServerBuilder};
use tokio::sync::mpsc;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn each_service_and_the_whole_have_a_health() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let mut client = HealthClient::new(stand.link.clone());
        for name in ["", NAME] {
            let health = client.check(of(name)).await.unwrap().into_inner();
            assert_eq!(health.status(), ServingStatus::Serving, "{kind:?} {name}");
        }
        let unknown = client.check(of("no.such.Service")).await.unwrap_err();
        assert_eq!(unknown.code(), Code::NotFound);

        stand.server.health().set("store", false).await;
        let whole = client.check(of("")).await.unwrap().into_inner();
        assert_eq!(whole.status(), ServingStatus::NotServing);
        let demo = client.check(of(NAME)).await.unwrap().into_inner();
        assert_eq!(demo.status(), ServingStatus::Serving);

        stand.server.health().set("store", true).await;
        let whole = client.check(of("")).await.unwrap().into_inner();
        assert_eq!(whole.status(), ServingStatus::Serving);
    }
}

#[tokio::test]
async fn watchers_are_reported_that_the_server_stops() {
    for kind in Kind::SOCKETS {
        let mut stand = Stand::internal(kind).await;
        let mut client = HealthClient::new(stand.link.clone());
        let mut watch = client.watch(of("")).await.unwrap().into_inner();
        let health = watch.message().await.unwrap().unwrap();
        assert_eq!(health.status(), ServingStatus::Serving);
        stand.shutdown.cancel();
        let health = within(watch.message()).await.unwrap().unwrap();
        assert_eq!(health.status(), ServingStatus::NotServing, "{kind:?}");
        drop((watch, client));
        stand.link = stand.server.link();
        stand.ended().await;
    }
}

/// The services that reflection lists, and the size of the file that describes the demo.
macro_rules! reflect {
    ($version:ident, $link:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;
        let ask = |message_request| $version::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(message_request),
        };
        let questions = [
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol(NAME.to_owned())),
        ];
        let mut answers = ServerReflectionClient::new($link)
            .server_reflection_info(tokio_stream::iter(questions))
            .await
            .unwrap()
            .into_inner();
        let mut services = Vec::new();
        let mut files = 0;
        while let Some(answer) = answers.message().await.unwrap() {
            match answer.message_response.unwrap() {
                MessageResponse::ListServicesResponse(list) => {
                    services.extend(list.service.into_iter().map(|service| service.name));
                }
                MessageResponse::FileDescriptorResponse(found) => {
                    files += found.file_descriptor_proto.len();
                }
                other => panic!("{other:?}"),
            }
        }
        services.sort();
        (services, files)
    }};
}

#[tokio::test]
async fn reflection_shows_what_is_registered_and_nothing_else() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let (services, files) = reflect!(v1, stand.link.clone());
        let own = "grpc.reflection.v1.ServerReflection";
        assert_eq!(services, [NAME, "grpc.health.v1.Health", own], "{kind:?}");
        assert_eq!(files, 1);
        let (services, files) = reflect!(v1alpha, stand.link.clone());
        let own = "grpc.reflection.v1alpha.ServerReflection";
        assert_eq!(services, [NAME, "grpc.health.v1.Health", own], "{kind:?}");
        assert_eq!(files, 1);
    }
}

/// What reflection says of a symbol or a file that no registered service needs.
macro_rules! ask_once {
    ($version:ident, $link:expr, $question:ident, $name:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest;
        let question = $version::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::$question($name.to_owned())),
        };
        let mut client = ServerReflectionClient::new($link);
        let answers = client
            .server_reflection_info(tokio_stream::iter([question]))
            .await;
        answers.unwrap().into_inner().message().await
    }};
}

#[tokio::test]
async fn reflection_describes_no_other_service() {
    let stand = Stand::internal(Kind::Local).await;
    let link = || stand.link.clone();
    for name in [
        "cairn.test.v1.NotRegisteredService",
        "cairn.test.v1.NotRegisteredService.Echo",
        "cairn.other.v1.OtherService",
        "cairn.other.v1.Other",
    ] {
        let answer = ask_once!(v1, link(), FileContainingSymbol, name);
        assert_eq!(answer.unwrap_err().code(), Code::NotFound, "{name}");
        let answer = ask_once!(v1alpha, link(), FileContainingSymbol, name);
        assert_eq!(answer.unwrap_err().code(), Code::NotFound, "{name}");
    }
    let other = "cairn/other/v1/other.proto";
    let answer = ask_once!(v1, link(), FileByFilename, other);
    assert_eq!(answer.unwrap_err().code(), Code::NotFound);
    for file in ["cairn/test/v1/demo.proto", "cairn/test/v1/text.proto"] {
        assert!(
            ask_once!(v1, link(), FileByFilename, file).is_ok(),
            "{file}"
        );
    }
    let needed = ask_once!(v1, link(), FileContainingSymbol, "cairn.test.v1.Text");
    assert!(needed.is_ok());
}

#[tokio::test]
async fn mistakes_in_registration_are_errors() {
    let (notices, _) = mpsc::unbounded_channel();
    let demo = Demo::new(notices);
    let twice = ServerBuilder::new(Exposure::Internal)
        .register(demo.clone(), &DESCRIPTORS)
        .register(demo.clone(), &DESCRIPTORS);
    let error = twice.build().await.unwrap_err();
    assert!(matches!(error, BuildError::RegisteredTwice(name) if name == NAME));
    let broken = ServerBuilder::new(Exposure::Internal).register(demo, b"\xff\xff");
    let error = broken.build().await.unwrap_err();
    assert!(matches!(error, BuildError::Descriptors(_)));
}
