//! A queue in RabbitMQ: durable, its messages persistent, every publishing confirmed, every delivery acknowledged by
//! hand.

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

use super::{Delivery, QueueError, Receipt};
use crate::order::Purchase;

const QUEUE: &str = "flash-sale-orders";
/// Written to disk, and not only kept in memory.
const PERSISTENT: u8 = 2;
/// How many orders are handed to a consumer ahead of its pace.
const AHEAD: u16 = 10;
/// How long it may take until an order is in the queue, or a connection is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// The queue. Clones share one connection for publishing.
#[derive(Clone)]
pub struct RabbitQueue {
    url: Arc<str>,
    publishing: Arc<Mutex<Option<Link>>>,
}

/// A channel, and the connection it lives by.
struct Link {
    channel: Channel,
    _connection: Connection,
}

impl RabbitQueue {
    pub(super) async fn open(url: &str) -> Result<Self, QueueError> {
        let link = publisher(url).await?;
        Ok(Self { url: url.into(), publishing: Arc::new(Mutex::new(Some(link))) })
    }

    /// The wait for those before is part of the patience: when the broker hangs, nobody waits for the sum of them all.
    pub(super) async fn put(&self, purchase: &Purchase) -> Result<(), QueueError> {
        timeout(PATIENCE, self.put_in_turn(purchase)).await.map_err(|_| QueueError::TimedOut(PATIENCE))?
    }

    async fn put_in_turn(&self, purchase: &Purchase) -> Result<(), QueueError> {
        let mut publishing = self.publishing.lock().await;
        let link = match publishing.take() {
            Some(link) if link.channel.status().connected() => link,
            _ => publisher(&self.url).await?,
        };
        publish(&link.channel, purchase).await?;
        // One that failed is not used again.
        *publishing = Some(link);
        Ok(())
    }

    pub(super) async fn deliveries(&self) -> Result<BoxStream<'static, Result<Delivery, QueueError>>, QueueError> {
        let link = connect(&self.url).await?;
        link.channel.basic_qos(AHEAD, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let consumer = link.channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
        let deliveries = stream::unfold((consumer, link), |(mut consumer, link)| async {
            let delivery = consumer.next().await?;
            Some((delivery, (consumer, link)))
        });
        Ok(deliveries.map(|delivery| delivery.map(read).map_err(Into::into)).boxed())
    }
}

fn read(delivery: lapin::message::Delivery) -> Delivery {
    let purchase = serde_json::from_slice(&delivery.data).ok();
    Delivery { purchase, receipt: Receipt::RabbitMq(Box::new(delivery)) }
}

pub(super) async fn done(delivery: &lapin::message::Delivery) -> Result<(), QueueError> {
    delivery.ack(BasicAckOptions::default()).await?;
    Ok(())
}

async fn connect(url: &str) -> Result<Link, QueueError> {
    let connecting = async {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(QUEUE.into(), durable, FieldTable::default()).await?;
        Ok(Link { channel, _connection: connection })
    };
    timeout(PATIENCE, connecting).await.map_err(|_| QueueError::TimedOut(PATIENCE))?
}

async fn publisher(url: &str) -> Result<Link, QueueError> {
    let link = connect(url).await?;
    link.channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(link)
}

async fn publish(channel: &Channel, purchase: &Purchase) -> Result<(), QueueError> {
    let message = serde_json::json!(purchase).to_string();
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    // With `mandatory`, a message that no queue takes comes back instead of vanishing.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let sent = channel.basic_publish("".into(), QUEUE.into(), options, message.as_bytes(), properties).await?;
    let confirmed = sent.await?;
    if confirmed.is_ack() && confirmed.take_message().is_none() { Ok(()) } else { Err(QueueError::NotConfirmed) }
}
