//! A queue in a stream of Redis, read by a consumer group.
//!
//! What a consumer has read is pending until it is acknowledged. Each consumer looks now and then for messages whose
//! reader has been silent for too long, and takes them over: that is how a process that was killed is inherited. A
//! reader that is only slow may lose a message to another and then handle it too, which the database notices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::streams::{StreamAutoClaimOptions, StreamAutoClaimReply, StreamId, StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client};

use super::{Delivery, QueueError, Receipt};
use crate::order::Purchase;

const STREAM: &str = "flash-sale:{1}:queue";
const GROUP: &str = "orders";
const FIELD: &str = "purchase";
/// How many messages are read at once.
const AHEAD: usize = 10;
/// How long a read waits for a message.
const BLOCK: Duration = Duration::from_millis(500);
/// How long any other answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The queue. Clones share one connection for everything but reading.
#[derive(Clone)]
pub struct StreamQueue {
    client: Client,
    connection: ConnectionManager,
    claim_after: Duration,
    /// By which the group knows this process.
    consumer: Arc<str>,
}

/// A consumer. It has a connection to itself: a read that waits keeps everybody else on it waiting.
struct Reader {
    connection: MultiplexedConnection,
    queue: StreamQueue,
    got: VecDeque<StreamId>,
}

impl StreamQueue {
    pub(super) async fn open(url: &str, claim_after: Duration) -> Result<Self, QueueError> {
        let client = Client::open(url)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(PATIENCE))
            .set_connection_timeout(Some(PATIENCE))
            .set_number_of_retries(2)
            .set_max_delay(Duration::from_millis(500));
        let mut connection = ConnectionManager::new_with_config(client.clone(), config).await?;
        make_group(&mut connection).await?;
        // No two connections of a server have the same id, ever.
        let id: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await?;
        let consumer = format!("{}-{id}", std::process::id()).into();
        Ok(Self { client, connection, claim_after, consumer })
    }

    pub(super) async fn put(&self, purchase: &Purchase) -> Result<(), QueueError> {
        let message = serde_json::json!(purchase).to_string();
        let _id: String = self.connection.clone().xadd(STREAM, "*", &[(FIELD, message)]).await?;
        Ok(())
    }

    pub(super) async fn deliveries(&self) -> Result<BoxStream<'static, Result<Delivery, QueueError>>, QueueError> {
        // A stream that was lost with its server is made again.
        make_group(&mut self.connection.clone()).await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(BLOCK + PATIENCE));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let reader = Reader { connection, queue: self.clone(), got: VecDeque::new() };
        let read = stream::try_unfold(reader, |mut reader| async {
            let entry = reader.next().await?;
            Ok::<_, QueueError>(Some((reader.queue.delivery(&entry), reader)))
        });
        Ok(read.boxed())
    }

    pub(super) async fn done(&self, id: &str) -> Result<(), QueueError> {
        let mut pipe = redis::pipe();
        // Acknowledged, and gone: nobody reads the stream's past.
        pipe.atomic().xack(STREAM, GROUP, &[id]).ignore().xdel(STREAM, &[id]).ignore();
        Ok(pipe.query_async(&mut self.connection.clone()).await?)
    }

    fn delivery(&self, entry: &StreamId) -> Delivery {
        let purchase = entry.get::<String>(FIELD).and_then(|text| serde_json::from_str(&text).ok());
        Delivery { purchase, receipt: Receipt::Stream(Box::new(self.clone()), entry.id.clone()) }
    }
}

impl Reader {
    /// The next message, as soon as there is one: first what another left, then what is new.
    async fn next(&mut self) -> Result<StreamId, QueueError> {
        loop {
            if let Some(entry) = self.got.pop_front() {
                return Ok(entry);
            }
            self.claim().await?;
            if self.got.is_empty() {
                self.read().await?;
            }
        }
    }

    async fn claim(&mut self) -> Result<(), QueueError> {
        let idle = u64::try_from(self.queue.claim_after.as_millis()).unwrap_or(u64::MAX);
        let options = StreamAutoClaimOptions::default().count(AHEAD);
        let claimed = self.connection.xautoclaim_options(STREAM, GROUP, &*self.queue.consumer, idle, "0-0", options);
        let claimed: StreamAutoClaimReply = claimed.await?;
        self.got.extend(claimed.claimed);
        Ok(())
    }

    async fn read(&mut self) -> Result<(), QueueError> {
        let options = StreamReadOptions::default()
            .group(GROUP, &*self.queue.consumer)
            .count(AHEAD)
            .block(usize::try_from(BLOCK.as_millis()).unwrap_or(1));
        let reply: Option<StreamReadReply> = self.connection.xread_options(&[STREAM], &[">"], &options).await?;
        self.got.extend(reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids));
        Ok(())
    }
}

async fn make_group(connection: &mut ConnectionManager) -> Result<(), QueueError> {
    let made: Result<(), redis::RedisError> = connection.xgroup_create_mkstream(STREAM, GROUP, "0").await;
    match made {
        Err(error) if error.code() != Some("BUSYGROUP") => Err(error.into()),
        _ => Ok(()),
    }
}
