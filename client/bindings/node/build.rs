//! Leaves the symbols of Node-API to the process that loads the library.

fn main() {
    napi_build::setup();
}
