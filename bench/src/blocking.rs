//! Blocking sockets with a timeout. A process that is stopped and goes on finds their calls interrupted,
//! with no signal handler anywhere (signal(7)): they are made again.

use std::io::{self, IoSlice, Read, Write};

/// Reads what is there, once something is.
///
/// # Errors
/// As the system says.
pub(crate) fn read_some(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    again(|| from.read(buffer))
}

/// Writes as much as one call takes.
///
/// # Errors
/// As the system says.
pub(crate) fn write_some(to: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    again(|| to.write_vectored(slices))
}

fn again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes and gives three bytes, behind two interruptions.
    struct InterruptedPipe(u32);

    impl InterruptedPipe {
        fn call(&mut self) -> io::Result<usize> {
            self.0 += 1;
            if self.0 < 3 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(3) }
        }
    }

    impl Read for InterruptedPipe {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.call()
        }
    }

    impl Write for InterruptedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.call()
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_stop_interrupted_is_done_again() {
        assert_eq!(read_some(&mut InterruptedPipe(0), &mut [0; 3]).expect("read"), 3);
        assert_eq!(write_some(&mut InterruptedPipe(0), &[IoSlice::new(b"abc")]).expect("written"), 3);
    }
}
