//! Control laws in a closed loop: a real gate, a simulated service behind it, and a manual clock.

mod conditions;
mod cpu;
mod simulated_service;
