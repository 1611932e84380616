// What tests of this project include besides.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
