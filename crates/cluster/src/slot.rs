//! Hash slots of a Redis Cluster.

/// Number of slots.
pub(crate) const SLOTS: u16 = 16384;

/// The hash slot of a key: that of its hash tag if it has a non-empty one, of the whole key otherwise.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

pub(crate) fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let begin = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[begin..].iter().position(|byte| *byte == b'}')?;
    Some(&key[begin..begin + length]).filter(|tag| !tag.is_empty())
}

/// CRC-16/XMODEM, as in the Redis Cluster specification.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"bar"), 5061);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn a_tag_alone_counts() {
        assert_eq!(slot_of(b"sluicegate:{foo}:rule"), slot_of(b"foo"));
        assert_eq!(slot_of(b"{foo}{bar}"), slot_of(b"foo"));
        assert_eq!(slot_of(b"{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot_of(b"{foo"), crc16(b"{foo") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}"), slot_of(b"{bar"));
    }
}
