//! Redis stream as a queue, read by a consumer group.
//!
//! A message is pending until it is acknowledged. Each consumer periodically claims pending messages of consumers that
//! have been idle for too long, such as those of a killed process. A message of a slow consumer may be handled twice;
//! the database recognizes the repeated order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::streams::{StreamAutoClaimOptions, StreamAutoClaimReply, StreamId, StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client};

use super::{Delivery, DeliveryTag, QueueError};
use crate::order::Purchase;

const STREAM: &str = "flash-sale:{1}:queue";
const GROUP: &str = "orders";
const FIELD: &str = "purchase";
/// Maximum number of messages per read.
const READ_COUNT: usize = 10;
/// Maximum time a read blocks.
const BLOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// Response timeout of all other commands.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Redis stream; clones share one connection for all commands except reads.
#[derive(Clone)]
pub struct StreamQueue {
    client: Client,
    connection: ConnectionManager,
    claim_after: Duration,
    /// Consumer name of this process.
    consumer: Arc<str>,
}

/// Consumer with its own connection: a blocking read would delay other commands on a shared connection.
struct GroupConsumer {
    connection: MultiplexedConnection,
    queue: StreamQueue,
    buffer: VecDeque<StreamId>,
}

impl StreamQueue {
    pub(super) async fn open(url: &str, claim_after: Duration) -> Result<Self, QueueError> {
        let client = Client::open(url)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_connection_timeout(Some(RESPONSE_TIMEOUT))
            .set_number_of_retries(2)
            .set_max_delay(Duration::from_millis(500));
        let mut connection = ConnectionManager::new_with_config(client.clone(), config).await?;
        create_group(&mut connection).await?;
        // Connection ids of a server are never reused.
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
        // Creates the stream again if the server has lost its data.
        create_group(&mut self.connection.clone()).await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(BLOCK_TIMEOUT + RESPONSE_TIMEOUT));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let consumer = GroupConsumer { connection, queue: self.clone(), buffer: VecDeque::new() };
        let deliveries = stream::try_unfold(consumer, |mut consumer| async {
            let entry = consumer.next().await?;
            Ok::<_, QueueError>(Some((consumer.queue.delivery(&entry), consumer)))
        });
        Ok(deliveries.boxed())
    }

    pub(super) async fn acknowledge(&self, id: &str) -> Result<(), QueueError> {
        let mut pipe = redis::pipe();
        // Acknowledged messages are deleted, because the history of the stream is not needed.
        pipe.atomic().xack(STREAM, GROUP, &[id]).ignore().xdel(STREAM, &[id]).ignore();
        Ok(pipe.query_async(&mut self.connection.clone()).await?)
    }

    fn delivery(&self, entry: &StreamId) -> Delivery {
        let purchase = entry.get::<String>(FIELD).and_then(|text| serde_json::from_str(&text).ok());
        Delivery { purchase, tag: DeliveryTag::Stream(Box::new(self.clone()), entry.id.clone()) }
    }
}

impl GroupConsumer {
    /// Waits for the next message. Claimed messages precede new ones.
    async fn next(&mut self) -> Result<StreamId, QueueError> {
        loop {
            if let Some(entry) = self.buffer.pop_front() {
                return Ok(entry);
            }
            self.claim().await?;
            if self.buffer.is_empty() {
                self.read().await?;
            }
        }
    }

    async fn claim(&mut self) -> Result<(), QueueError> {
        let idle = u64::try_from(self.queue.claim_after.as_millis()).unwrap_or(u64::MAX);
        let options = StreamAutoClaimOptions::default().count(READ_COUNT);
        let claimed = self.connection.xautoclaim_options(STREAM, GROUP, &*self.queue.consumer, idle, "0-0", options);
        let claimed: StreamAutoClaimReply = claimed.await?;
        self.buffer.extend(claimed.claimed);
        Ok(())
    }

    async fn read(&mut self) -> Result<(), QueueError> {
        let options = StreamReadOptions::default()
            .group(GROUP, &*self.queue.consumer)
            .count(READ_COUNT)
            .block(usize::try_from(BLOCK_TIMEOUT.as_millis()).unwrap_or(1));
        let reply: Option<StreamReadReply> = self.connection.xread_options(&[STREAM], &[">"], &options).await?;
        self.buffer.extend(reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids));
        Ok(())
    }
}

async fn create_group(connection: &mut ConnectionManager) -> Result<(), QueueError> {
    let result: Result<(), redis::RedisError> = connection.xgroup_create_mkstream(STREAM, GROUP, "0").await;
    match result {
        Err(error) if error.code() != Some("BUSYGROUP") => Err(error.into()),
        _ => Ok(()),
    }
}
