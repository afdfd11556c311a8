//! How many connections a listener has, and for whom.

#![cfg(target_os = "linux")]

use crate::stand::{Kind, Stand, within};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::service_fn;

/// A connection from an address of this machine: on Linux all of 127.0.0.0/8 are.
async fn connect(from: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    socket.connect(to).await
}

/// Whether a client at an address gets an answer.
async fn is_answered(from: [u8; 4], to: SocketAddr) -> bool {
    let connect = service_fn(move |_| async move { connect(from, to).await.map(TokioIo::new) });
    let endpoint = Endpoint::from_static("http://localhost");
    let Ok(channel) = endpoint.connect_with_connector(connect).await else {
        return false;
    };
    let mut health = HealthClient::new(channel);
    health.check(HealthCheckRequest::default()).await.is_ok()
}

#[tokio::test]
async fn one_address_has_256_connections_and_shuts_nobody_out() {
    const ONE: [u8; 4] = [127, 0, 0, 1];
    const OTHER: [u8; 4] = [127, 0, 0, 2];
    let stand = Stand::internal(Kind::Tcp).await;
    let address = stand.address.clone().unwrap();
    let address: SocketAddr = address.host_and_port().unwrap().parse().unwrap();
    let mut idle = Vec::new();
    for _ in 0..256 {
        idle.push(within(connect(ONE, address)).await.unwrap());
    }
    // The server accepts in order, so these come after all of the others, and the oldest make room.
    for oldest in 0..3 {
        idle.push(within(connect(ONE, address)).await.unwrap());
        let read = within(idle[oldest].read(&mut [0; 1])).await;
        assert!(matches!(read, Ok(0) | Err(_)), "it is not closed");
    }
    assert!(within(is_answered(ONE, address)).await);
    assert!(within(is_answered(OTHER, address)).await);
}
