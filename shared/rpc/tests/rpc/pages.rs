//! Pages over HTTP on the listener of the gRPC services.

use crate::demo::{Client, DESCRIPTORS, Demo, ECHO, text};
use crate::stand::LONG;
use axum::Router;
use axum::routing::get;
use cairn_rpc::{Exposure, Link, RequireToken, Server, ServerBuilder, Token};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tonic::Request;

const TOKEN: &str = "canary-0123456789";

async fn serve() -> (Server, SocketAddr) {
    let token: Token = TOKEN.parse().unwrap();
    let token = RequireToken::new(&token, "it is in FILE");
    let (notices, _) = mpsc::unbounded_channel();
    let server = ServerBuilder::new(Exposure::Public(Some(Arc::new(token))))
        .register(Demo::new(notices), &DESCRIPTORS)
        .build()
        .await
        .unwrap()
        .with_pages(Router::new().route("/metrics", get(async || "counted 1\n")));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.clone();
    tokio::spawn(async move {
        let serving = serving.serve(listener.into(), std::future::pending(), LONG);
        serving.await.unwrap();
    });
    (server, address)
}

/// Status and body of a page.
async fn page(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: cairn\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[tokio::test]
async fn one_listener_has_calls_and_pages() {
    let (_server, address) = serve().await;
    let link = Link::remote(&address.into());
    let mut request = Request::new(text("whoami"));
    let token = format!("Bearer {TOKEN}");
    let metadata = request.metadata_mut();
    metadata.insert("authorization", token.parse().unwrap());
    let answer = Client::new(link).call(ECHO, request).await.unwrap();
    assert_eq!(answer, "Token token in default, 0 headers");

    let with_token = format!("authorization: {token}\r\n");
    let (status, body) = page(address, "/metrics", &with_token).await;
    assert_eq!((status, body.as_str()), (200, "counted 1\n"));
    let (status, body) = page(address, "/no-such-page", &with_token).await;
    assert_eq!((status, body.as_str()), (404, ""));
}

/// Such a request could come from a page of another site, in a browser on this machine.
#[tokio::test]
async fn a_call_over_http_1_is_refused() {
    let (_server, address) = serve().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST {ECHO} HTTP/1.1\r\nhost: cairn\r\nconnection: close\r\ncontent-type: text/plain\r\n\
         authorization: Bearer {TOKEN}\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("grpc-status: 9"), "{answer}");
    assert!(answer.contains("HTTP/2"), "{answer}");
}

#[tokio::test]
async fn a_page_needs_the_token_of_the_listener() {
    let (_server, address) = serve().await;
    for headers in ["", "authorization: Bearer canary-9876543210\r\n"] {
        let (status, body) = page(address, "/metrics", headers).await;
        assert_eq!(status, 401, "{body}");
        assert!(body.contains("token"), "{body}");
        assert!(!body.contains("counted"), "{body}");
    }
}

#[tokio::test]
async fn the_health_page_has_the_health_of_the_whole_server() {
    let (server, address) = serve().await;
    let health = async || page(address, "/healthz", "").await;
    assert_eq!(health().await, (200, "ok\n".to_owned()));
    server.health().set("store", false).await;
    assert_eq!(health().await, (503, "not serving\n".to_owned()));
    server.health().set("store", true).await;
    assert_eq!(health().await, (200, "ok\n".to_owned()));
}
