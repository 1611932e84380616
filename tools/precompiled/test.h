// Headers of other projects that our tests include besides.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
