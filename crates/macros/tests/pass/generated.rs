//! Functions that other macros write can be limited too.
use sluicegate::{Limited, limit};

macro_rules! limited {
    ($name:ident, $limit:literal, $argument:ident: $type:ty) => {
        #[limit($limit, key = $argument)]
        fn $name($argument: $type) -> Result<$type, Limited> {
            Ok($argument)
        }
    };
}

limited!(text, "1/1h", name: String);
limited!(number, "2/1h", id: u32);

fn main() {
    assert!(text("a".to_owned()).is_ok() && text("a".to_owned()).is_err());
    assert!(number(1).is_ok() && number(1).is_ok() && number(1).is_err());
}
