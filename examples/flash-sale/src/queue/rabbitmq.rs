//! RabbitMQ queue: durable queue, persistent messages, publisher confirms, manual acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Delivery, DeliveryTag, QueueError};
use crate::order::Purchase;

const QUEUE: &str = "flash-sale-orders";
/// Delivery mode: written to disk.
const PERSISTENT: u8 = 2;
/// Maximum number of unacknowledged deliveries per consumer.
const PREFETCH: u16 = 10;
/// Timeout for publishing an order and for opening a connection.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

/// RabbitMQ queue; clones share one connection for publishing.
#[derive(Clone)]
pub struct RabbitQueue {
    url: Arc<str>,
    publishing: Arc<Mutex<Option<AmqpChannel>>>,
}

/// Channel and its connection.
struct AmqpChannel {
    channel: Channel,
    _connection: Connection,
}

impl RabbitQueue {
    pub(super) async fn open(url: &str) -> Result<Self, QueueError> {
        let amqp = publisher(url).await?;
        Ok(Self { url: url.into(), publishing: Arc::new(Mutex::new(Some(amqp))) })
    }

    /// The timeout includes the wait for other publishers: if the broker hangs, all of them time out together.
    pub(super) async fn put(&self, purchase: &Purchase) -> Result<(), QueueError> {
        timeout(PUBLISH_TIMEOUT, self.publish_serialized(purchase))
            .await
            .map_err(|_| QueueError::TimedOut(PUBLISH_TIMEOUT))?
    }

    async fn publish_serialized(&self, purchase: &Purchase) -> Result<(), QueueError> {
        let mut publishing = self.publishing.lock().await;
        let amqp = match publishing.take() {
            Some(amqp) if amqp.channel.status().connected() => amqp,
            _ => publisher(&self.url).await?,
        };
        publish(&amqp.channel, purchase).await?;
        // A failed channel is not used again.
        *publishing = Some(amqp);
        Ok(())
    }

    pub(super) async fn deliveries(&self) -> Result<BoxStream<'static, Result<Delivery, QueueError>>, QueueError> {
        let amqp = connect(&self.url).await?;
        amqp.channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let consumer = amqp.channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
        let deliveries = stream::unfold((consumer, amqp), |(mut consumer, amqp)| async {
            let delivery = consumer.next().await?;
            Some((delivery, (consumer, amqp)))
        });
        Ok(deliveries.map(|delivery| delivery.map(convert).map_err(Into::into)).boxed())
    }
}

fn convert(delivery: lapin::message::Delivery) -> Delivery {
    let purchase = serde_json::from_slice(&delivery.data).ok();
    Delivery { purchase, tag: DeliveryTag::RabbitMq(Box::new(delivery)) }
}

pub(super) async fn acknowledge(delivery: &lapin::message::Delivery) -> Result<(), QueueError> {
    delivery.ack(BasicAckOptions::default()).await?;
    Ok(())
}

async fn connect(url: &str) -> Result<AmqpChannel, QueueError> {
    let connecting = async {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(QUEUE.into(), durable, FieldTable::default()).await?;
        Ok(AmqpChannel { channel, _connection: connection })
    };
    timeout(PUBLISH_TIMEOUT, connecting).await.map_err(|_| QueueError::TimedOut(PUBLISH_TIMEOUT))?
}

async fn publisher(url: &str) -> Result<AmqpChannel, QueueError> {
    let amqp = connect(url).await?;
    amqp.channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(amqp)
}

async fn publish(channel: &Channel, purchase: &Purchase) -> Result<(), QueueError> {
    let message = serde_json::json!(purchase).to_string();
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    // With `mandatory`, the broker returns an unroutable message instead of dropping it.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let sent = channel.basic_publish("".into(), QUEUE.into(), options, message.as_bytes(), properties).await?;
    let confirmed = sent.await?;
    if confirmed.is_ack() && confirmed.take_message().is_none() { Ok(()) } else { Err(QueueError::NotConfirmed) }
}
